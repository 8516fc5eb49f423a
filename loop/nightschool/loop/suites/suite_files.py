"""What a suite generator returns: the content of suite.toml and of the three splits, before anybody writes a file."""

from dataclasses import dataclass
from typing import Any, TypeAlias

Task: TypeAlias = dict[str, Any]  # {"id", "prompt", "grader": {"kind", "expected", ...}}: one line of a .jsonl file


@dataclass(frozen=True, slots=True)
class SuiteFiles:
    toml: str
    train: list[Task]
    val: list[Task]
    test: list[Task]
