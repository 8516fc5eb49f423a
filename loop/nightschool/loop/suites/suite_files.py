"""What a suite generator returns: suite.toml and the three splits, before anybody writes a file."""

from dataclasses import dataclass
from typing import Any, TypeAlias

Task: TypeAlias = dict[str, Any]  # {"id", "prompt", "grader": {"kind", "expected", ...}}


@dataclass(frozen=True, slots=True)
class SuiteFiles:
    """The text of suite.toml, and the tasks of train.jsonl, val.jsonl and test.jsonl."""

    toml: str
    train: list[Task]
    val: list[Task]
    test: list[Task]
