"""Reading a suite: strict; all that is wrong are Problems with file and line, so a suite that loads can be run.

On disk a folder: suite.toml (schema, name, system, max_tokens, stop, [evolve]), train.jsonl, val.jsonl and test.jsonl
with one task a line, and files/ for tasks that come with files; docs/suites.md tells it to those who write one.
Making a suite is left to `suite`; whether one can show anything, to `suite_check`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field, ValidationError

from nightschool.disk import files, jsonl
from nightschool.disk.errors import MachineProblem, Problem
from nightschool.loop import schemas
from nightschool.loop.answers import normalise
from nightschool.loop.graders import Grader
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.strict import SEE_FORMAT, Filled, Line, Strict, as_problem, key_of

SCHEMA = 1
SPLITS = ("train", "val", "test")
TOML = "suite.toml"
OWN = (TOML, *(f"{split}.jsonl" for split in SPLITS))
FILES = "files"

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


@dataclass(frozen=True, slots=True)
class Task:
    """One question: what is asked, what is right, and the files below files/ that come with it."""

    id: str
    prompt: str
    grader: Grader
    files: tuple[str, ...] = ()
    answer: Mapping[str, Any] | None = None
    """A JSON schema that the answer is held to while it is written; None: free text."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that was read and found whole; `sha` is the hash of all that was read."""

    name: str
    system: str
    max_tokens: int
    stop: tuple[str, ...]
    train: tuple[Task, ...]
    val: tuple[Task, ...]
    test: tuple[Task, ...]
    folder: Path
    sha: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What [evolve] sets, by the names of `EvolveSettings`."""

    def split(self, name: str) -> tuple[Task, ...]:
        """The tasks of `train`, `val` or `test`."""
        return {"train": self.train, "val": self.val, "test": self.test}[name]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All of them, train first."""
        return self.train + self.val + self.test


class _Toml(Strict):
    version: int = Field(validation_alias="schema", ge=1)
    name: Identifier
    system: str = ""
    max_tokens: int = Field(default=256, ge=1, le=100_000)
    stop: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] = ()
    evolve: EvolveSettings = EvolveSettings()


class _Task(Strict):
    id: Identifier
    prompt: Filled
    grader: Grader
    files: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    answer: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    """A task and the line that it comes from."""

    split: str
    line: int
    task: Task

    @property
    def place(self) -> str:
        return f"{self.split}.jsonl:{self.line}"


def load_suite(folder: Path) -> Suite:
    """Read a suite; the first thing that is wrong with it is a Problem with its file and line."""
    suite, faults = read_suite(folder)
    if suite is None:
        raise faults[0]
    return suite


def read_suite(folder: Path) -> tuple[Suite | None, list[Problem]]:
    """The suite, or None and everything that is wrong with it: of each line the first fault, in the order of the files.

    A folder without suite.toml is no suite, and that is all there is to say.
    """
    _own_file(folder, TOML)
    faults: list[Problem] = []
    toml: _Toml | None = None
    with _noted(faults):
        toml = _read_toml(folder / TOML)
    placed: list[_Placed] = []
    for split in SPLITS:
        with _noted(faults):
            _own_file(folder, f"{split}.jsonl")
            placed += _read_split(folder, split, faults)
    faults += [*_repeated_ids(folder, placed), *_leaks(folder, placed)]
    if toml is None or faults:
        return None, faults
    tasks = {split: tuple(one.task for one in placed if one.split == split) for split in SPLITS}
    suite = Suite(
        name=toml.name,
        system=toml.system,
        max_tokens=toml.max_tokens,
        stop=toml.stop,
        **tasks,
        folder=folder,
        sha=_hash(folder, members(one.task for one in placed)),
        settings=toml.evolve.model_dump(exclude_unset=True),
    )
    return suite, []


@contextmanager
def _noted(faults: list[Problem]) -> Iterator[None]:
    """Note what is wrong, and go on; a failed machine is no fault of a suite."""
    try:
        yield
    except MachineProblem:
        raise
    except Problem as problem:
        faults.append(problem)


def name_of(folder: Path) -> str | None:
    """The name in suite.toml alone; None where it cannot be read."""
    try:
        return _read_toml(folder / TOML).name
    except Problem:
        return None


def members(tasks: Iterable[Task]) -> list[str]:
    """Relative paths of all files of a suite with these tasks."""
    return [*OWN, *sorted({f"{FILES}/{name}" for task in tasks for name in task.files})]


def _own_file(folder: Path, name: str) -> None:
    if (folder / name).is_symlink():
        raise Problem(f"{folder / name}:1: the file is a symbolic link", "copy the file itself into the suite")
    if not (folder / name).is_file():
        raise Problem(
            f"{folder}: no {name}",
            "a suite is a folder with suite.toml, train.jsonl, val.jsonl and test.jsonl",
        )


def _read_toml(path: Path) -> _Toml:
    text = files.read_text(path).removeprefix("\ufeff")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not all that tomllib raises is its own: a number of 5,000 digits
        at = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = at.group(1) if at else len(text.splitlines())
        what = str(error).removesuffix(at.group() if at else "")
        raise Problem(f"{path}:{line}: not TOML: {what}", "mend that line") from None
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        line = _line_of("schema", text)
        raise Problem(f"{path}:{line}: suite schema {schema}; this version reads {SCHEMA}", "update nightschool")
    try:
        return _Toml.model_validate(data)
    except ValidationError as error:
        raise as_problem(error, f"{path}:{_line_of(key_of(error), text)}") from None


def _line_of(key: str, text: str) -> int:
    """The first line that sets the key or opens its table; 1 when none does."""
    sets = re.compile(rf"""\s*\[?["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if sets.match(line)), 1)


def _read_split(folder: Path, split: str, faults: list[Problem]) -> list[_Placed]:
    """The tasks of the lines that are right; what is wrong with the others goes to `faults`."""
    path = folder / f"{split}.jsonl"
    lines = jsonl.lines(path)
    if not lines:
        raise Problem(f"{path}:1: the split is empty", "write one task a line")
    placed = []
    for number, line in lines:
        where = f"{path}:{number}"
        with _noted(faults):
            placed.append(_Placed(split, number, _read_task(folder, jsonl.record(line, where), where)))
    return placed


def _read_task(folder: Path, record: dict[str, Any], where: str) -> Task:
    line = _Task.parse(record, where)
    for name in line.files:
        _refuse_outside(folder / FILES, name, where)
    if line.answer is not None:
        _refuse_unwritable(line.answer, where)
    return Task(line.id, line.prompt, line.grader, line.files, line.answer)


def _refuse_unwritable(schema: dict[str, Any], where: str) -> None:
    """The decoder must be able to hold an answer to the schema, or the night would end at this task."""
    from nightschool.engine.grammar import Grammar

    try:
        Grammar.from_schema(schemas.well_formed(schema))
    except ValueError as error:
        raise Problem(f"{where}: answer: {error}", f"correct it; {SEE_FORMAT}") from None
    except Problem as problem:
        raise Problem(f"{where}: answer: {problem.what}", problem.advice) from None


def _refuse_outside(root: Path, name: str, where: str) -> None:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or "\\" in name or ":" in name:
        raise Problem(f"{where}: the file {name!r} leaves the suite", "give its path below files/, such as 'data.csv'")
    path = root / relative
    if any(part.is_symlink() for part in (path, *path.parents[: len(relative.parts)])):
        raise Problem(f"{where}: the file {name!r} is a symbolic link", "copy the file itself into the suite")
    if not path.is_file():
        raise Problem(f"{where}: no file {name!r} in files/", "add the file, or take it off the list")


def _repeated_ids(folder: Path, placed: Iterable[_Placed]) -> Iterator[Problem]:
    """Ids name files: on some machines `A` and `a` are one."""
    seen: dict[str, _Placed] = {}
    for one in placed:
        first = seen.setdefault(one.task.id.casefold(), one)
        if first is not one:
            yield Problem(
                f"{folder / one.place}: the id {one.task.id!r} is taken by {first.place}",
                "give every task its own id; upper and lower case are the same",
            )


def _leaks(folder: Path, placed: Iterable[_Placed]) -> Iterator[Problem]:
    seen: dict[tuple[str, tuple[str, ...]], _Placed] = {}
    for one in placed:
        first = seen.setdefault((normalise(one.task.prompt), one.task.files), one)
        if first.split != one.split:
            yield Problem(f"{folder / one.place}: the prompt is that of {first.place}", "keep a task in one split only")


def _hash(folder: Path, names: Iterable[str]) -> str:
    return files.sha256_text("".join(f"{name}\0{files.sha256_file(folder / name)}\n" for name in names))
