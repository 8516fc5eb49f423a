"""Traces: what one student did on one task, and how it was graded.

On disk one JSON file a task, `raw/iter-003/train/TASK.json`, written once and never changed; its name is its id. The
module knows nothing of who reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from nightschool.disk import files
from nightschool.disk.errors import Problem
from nightschool.loop import stats

SCHEMA = 1
Split = Literal["train", "val", "test", "confirm", "standing", "edited"]
"""`confirm` and `standing` are the two confirming runs of val, `edited` is val after a person's edit of skills/."""
_TRAIN = re.compile(r"iter-[0-9]{3,9}/train/[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a student with tools."""

    thinking: str
    action: str
    args: Mapping[str, str]
    observation: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One rollout. `finish` is how the last reply ended; `engine` tells what computed it."""

    id: str
    task: str
    prompt: str
    attempt: int
    messages: tuple[Mapping[str, str], ...]
    steps: tuple[Step, ...]
    answer: str
    expected: str
    score: float
    reason: str
    finish: str
    usage: Mapping[str, int | None]
    seed: int
    model: str
    skills_sha: str
    engine: Mapping[str, Any] = field(default_factory=dict)
    replies: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    """What the grader asks of every such answer and this one missed; empty in traces of older versions."""

    @property
    def passed(self) -> bool:
        """Full marks."""
        return self.score >= 1.0


def trace_id(iteration: int, split: Split, task: str) -> str:
    """`iter-003/train/TASK`; also its path under raw/, without the suffix."""
    return f"iter-{iteration:03d}/{split}/{task}"


def path_of(raw: Path, identity: str) -> Path:
    """Where the trace of this id lies."""
    return raw / f"{identity}.json"


def write(raw: Path, trace: Trace) -> None:
    """Write a trace in one atomic step."""
    record = {"schema": SCHEMA, **asdict(trace)}
    files.write_atomic(path_of(raw, trace.id), json.dumps(record, ensure_ascii=False, indent=1) + "\n")


def read(raw: Path, identity: str) -> Trace:
    """Read the trace of this id; a Problem when it is missing or damaged."""
    path = path_of(raw, identity)
    if not path.is_file():
        raise Problem(f"no trace {identity!r}", "list the traces with `nightschool trace`")
    try:
        record = json.loads(files.read_text(path))
        if (schema := record.pop("schema")) != SCHEMA:
            raise Problem(
                f"{path}: trace schema {schema!r}, this version reads {SCHEMA}",
                "use the version of nightschool that made this workspace, or a newer one",
            )
        record["steps"] = tuple(Step(**step) for step in record["steps"])
        record["messages"] = tuple(record["messages"])
        record["rules"] = tuple(record.get("rules", ()))
        _refuse_odd(record)
        return Trace(**record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Problem(f"{path}: damaged trace ({error})", "delete the file; the next `evolve` makes it again") from None


def _refuse_odd(record: Mapping[str, Any]) -> None:
    """A trace is read by prompts, means and people: a field of another type is found here."""
    texts = [record[key] for key in ("id", "task", "prompt", "answer", "expected", "reason", "finish", "skills_sha")]
    texts += [message[key] for message in record["messages"] for key in ("role", "content")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is no text")
    if isinstance(record["score"], bool) or not isinstance(record["score"], int | float):
        raise TypeError(f"the score is {record['score']!r}")
    if not all(isinstance(record.get(key, {}), dict) for key in ("usage", "engine", "replies")):
        raise TypeError("a table is no table")


def read_train(raw: Path, identity: str) -> Trace | None:
    """The train trace of this id; None when there is none any more, or when the id names anything else."""
    return read(raw, identity) if _TRAIN.fullmatch(identity) and exists(raw, identity) else None


def exists(raw: Path, identity: str) -> bool:
    """Whether this trace was finished."""
    return path_of(raw, identity).is_file()


def mean(traces: tuple[Trace, ...]) -> float:
    """Mean score, rounded so that the order of summation cannot change a verdict."""
    return stats.mean([trace.score for trace in traces])
