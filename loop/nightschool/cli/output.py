"""How the command line speaks: data on stdout, talk on stderr, problems in two lines, plain when not a terminal.

Rich is loaded only by what draws; NO_COLOR is honoured by it. Commands that a person may copy name the program as it was
started.
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from nightschool.engine.fetch import Progress

WIDE = 1000
"""Columns where there is no terminal: a file has no edge to wrap at."""
PAGE = 80
"""Columns of a table that is read as a page, in a file too."""


def data(record: Any) -> None:
    """A record as JSON on stdout."""
    import json

    print(json.dumps(record, ensure_ascii=False, indent=2), flush=True)


def say(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def problem(error: Problem) -> None:
    """What is wrong, and what to do."""
    say(f"error: {' '.join(error.what.split())}")
    say(f"  try: {as_started(' '.join(error.advice.split()))}")


@functools.cache
def program() -> str:
    """How to start this program again: `nightschool`, `.venv/bin/nightschool` or `python -m nightschool.cli`."""
    started = Path(sys.argv[0])
    if started.parts[-3:] == ("nightschool", "cli", "__main__.py"):
        return f"{shlex.quote(sys.orig_argv[0])} -m nightschool.cli"
    found = shutil.which("nightschool")
    if started.name != "nightschool" or (found and Path(found).absolute() == started.absolute()):
        return "nightschool"
    near = started.is_absolute() and started.is_relative_to(Path.cwd())
    return shlex.quote(str(started.relative_to(Path.cwd()) if near else started))


def command(*words: object) -> str:
    """A command of this program, to be copied: `nightschool evolve my-night`; the folder `.` goes without saying."""
    return " ".join([program(), *(shlex.quote(str(word)) for word in words if str(word) != ".")])


def as_started(advice: str) -> str:
    """Advice of the other layers, which know the program as `nightschool` only."""
    return re.sub(r"(?<![\w./-])nightschool(?= [a-z])", lambda _: program(), advice)


def console(width: int = WIDE) -> Console:
    """A rich console on stdout, of this width where there is no terminal."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else width)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, width: int = WIDE
) -> None:
    """A small table on stdout; columns whose cells are all figures stand to the right. `width`: as `console` takes it."""
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for n, column in enumerate(columns):
        figures = bool(rows) and all(row[n][:1].isdigit() or row[n] in ("", "-") for row in rows)
        drawn.add_column(column, justify="right" if figures else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    draw(drawn, width)


def listing(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows whose last column is never cut or folded, so that a path can be copied; the first stands to the right."""
    width = max(len(columns[0]), *(len(row[0]) for row in rows))
    for first, *rest in (columns, *rows):
        print(f"{first:>{width}}  {'  '.join(rest)}".rstrip())


def draw(drawn: RenderableType, width: int = WIDE) -> None:
    """Something that rich draws, on stdout; in a file no line ends in blanks."""
    shown = console(width)
    if shown.is_terminal:
        shown.print(drawn)
        return
    with shown.capture() as text:
        shown.print(drawn)
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


@contextmanager
def telling() -> Iterator[Progress]:
    """A progress bar on a terminal; elsewhere a plain line for each step."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total)
            bar.update(tasks[step], completed=done, total=total)

        yield show


def _lines() -> Progress:
    told: set[str] = set()

    def show(step: str, done: int, total: int | None) -> None:
        if step not in told:
            told.add(step)
            say(f"  {step}")

    return show
