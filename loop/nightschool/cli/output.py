"""How the command line speaks: data on stdout, talk on stderr, problems in two lines, plain when not a terminal.

Rich is loaded only by what draws; NO_COLOR is honoured by it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from rich.console import Console


def data(record: Any) -> None:
    """A record as JSON on stdout."""
    print(json.dumps(record, ensure_ascii=False, indent=2))


def say(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def problem(error: Problem) -> None:
    """What is wrong, and what to do."""
    say(f"error: {' '.join(error.what.split())}")
    say(f"  try: {' '.join(error.advice.split())}")


def console() -> Console:
    """A rich console on stdout."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """A small table on stdout; columns whose cells are all figures stand to the right."""
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for n, column in enumerate(columns):
        figures = bool(rows) and all(row[n][:1].isdigit() or row[n] in ("", "-") for row in rows)
        drawn.add_column(column, justify="right" if figures else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console().print(drawn)
