"""The records that are kept, the newest first, and how one of them is named: by its file, or by any part of its file's name.

What cannot be read is told beside those that can; it stops nobody from looking at the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightschool.bench.result import Measure, Record, load, state_folder
from nightschool.disk.errors import Problem

LIST = "nightschool bench history lists the records"


@dataclass(frozen=True, slots=True)
class Kept:
    """A record and its file, or what is wrong with it."""

    path: Path
    record: Record | None
    problem: str = ""

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.path.stem


def every(folder: Path | None = None, bench: str | None = None, model: str | None = None) -> Iterator[Kept]:
    """All records, the newest first, or those of one bench or model."""
    folder = folder or state_folder()
    for path in sorted(folder.glob("*.json"), reverse=True):
        try:
            record = load(path)
        except Problem as problem:
            yield Kept(path, None, problem.what)
            continue
        if bench in (None, record.bench) and (model is None or (record.model and record.model.alias == model)):
            yield Kept(path, record)


def find(name: str, folder: Path | None = None) -> Record:
    """The record of a file, or the one kept record whose name has `name` in it."""
    if (path := Path(name)).is_file():
        return load(path)
    folder = folder or state_folder()
    found = sorted(path for path in folder.glob("*.json") if name in path.stem)
    if not found:
        raise Problem(f"no record is called {name!r}", LIST)
    if len(found) > 1:
        raise Problem(
            f"{len(found)} records are called {name!r}, {found[-1].stem} the newest", f"say more of it; {LIST}"
        )
    return load(found[0])


def headline(record: Record) -> Measure | None:
    """The figure that stands for a record: its first that could be had."""
    return next((one for one in record.measures if one.samples), None)
