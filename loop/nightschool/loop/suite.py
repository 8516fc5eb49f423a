"""Suites as others use them: read one, make one, and shuffle one for a control.

A made folder is all or nothing: it is written beside its place, read back, and renamed. What a suite is on disk is told
in `suite_read`, which reads it; what generated suites hold, in `suites`.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.disk import files
from nightschool.disk.errors import Problem, nearest
from nightschool.loop.graders import reference
from nightschool.loop.suite_read import OWN, SPLITS, Suite, Task, load_suite, members, read_suite

if TYPE_CHECKING:
    from nightschool.loop.suites.generated import SuiteFiles

__all__ = ["SPLITS", "Suite", "Task", "load_suite", "materialise", "read_suite", "shuffled"]


def materialise(source: str | Path, folder: Path) -> Suite:
    """Write the suite that `source` names into `folder`, which must not exist or be empty, and read it.

    `source` is NAME or NAME:SEED of a generated suite, or the path of a folder; a plain word is a name, not a path.
    """
    contents = _contents(source)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise Problem(f"{folder} exists and is not empty", "choose another folder")
    with files.explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        for name, data in contents.items():
            files.write_atomic(aside / name, data)
        load_suite(aside)
        with files.explained(folder):
            aside.chmod(0o755)  # mkdtemp makes it private
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return load_suite(folder)


def shuffled(tasks: Sequence[Task], seed: int) -> tuple[Task, ...]:
    """The same tasks with their graders permuted, for a control: answers from which nothing right can be learned.

    No task keeps its own grader, nor gets an equal expected answer as long as no answer belongs to more than half.
    """
    answers = [reference(task.grader) for task in tasks]
    groups = Counter(answers)
    if len(groups) < 2:
        raise Problem("tasks with one expected answer cannot be shuffled", "use a suite with different answers")
    draw = random.Random(f"shuffled {seed}")
    rank = dict(zip(groups, draw.sample(range(len(groups)), len(groups)), strict=True))
    order = sorted(draw.sample(range(len(tasks)), len(tasks)), key=lambda index: rank[answers[index]])
    shift = max(groups.values())  # steps over every group of equal answers
    given = {to: tasks[order[(place + shift) % len(order)]].grader for place, to in enumerate(order)}
    return tuple(replace(task, grader=given[index]) for index, task in enumerate(tasks))


def _contents(source: str | Path) -> Mapping[str, bytes]:
    """Every file of the suite, checked as far as it can be before it is written."""
    if isinstance(source, Path) or not re.fullmatch(r"[A-Za-z0-9_-]+(:.*)?", source):
        return _copied(Path(source))
    from nightschool.loop.suites.generated import GENERATORS

    name, _, seed = source.partition(":")
    if name not in GENERATORS:
        raise Problem(f"unknown suite {name!r}", f"{nearest(name, GENERATORS)} (a folder of your own: ./{name})")
    if not re.fullmatch(r"\d{1,18}", seed or "0", re.ASCII):
        raise Problem(f"{source}: the seed {seed!r} is no whole number", f"write {name}:7, for example")
    return _rendered(GENERATORS[name](int(seed or "0")))


def _copied(folder: Path) -> Mapping[str, bytes]:
    suite = load_suite(folder)
    with files.explained(folder):
        return {name: (folder / name).read_bytes() for name in members(suite.tasks)}


def _rendered(suite: SuiteFiles) -> Mapping[str, bytes]:
    splits = (suite.train, suite.val, suite.test)
    texts = ["".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks) for tasks in splits]
    return {name: text.encode() for name, text in zip(OWN, (suite.toml, *texts), strict=True)}
