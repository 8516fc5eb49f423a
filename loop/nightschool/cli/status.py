"""`nightschool status`: what the last night came to, or how far it is."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Dir, Json

if TYPE_CHECKING:
    from nightschool.loop.workspace import Workspace


def status(
    folder: Dir = HERE,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it for as long as the night runs.")] = False,
) -> None:
    """The last night: scores, what was kept, the test split, the cost.

    With --watch on a terminal the picture is kept up to date; elsewhere it is printed whenever something has happened.
    """
    from nightschool.cli.summary import summary
    from nightschool.disk.locks import held
    from nightschool.loop.report import status as read
    from nightschool.loop.workspace import find

    space = find(folder)
    if watch and sys.stdout.isatty() and not as_json:
        _live(space)
        return
    shown: dict[str, Any] = {}
    while True:
        record, goes_on = read(space), held(space.lock)
        if record != shown:
            output.data(record) if as_json else summary(space, record, running=goes_on)
        if not (watch and goes_on):
            return
        shown = record
        time.sleep(1)


def _live(space: Workspace) -> None:
    """Draw the summary again and again, in place."""
    from rich.live import Live

    from nightschool.cli.summary import summarised
    from nightschool.disk.locks import held
    from nightschool.loop.report import status as read

    with Live(console=output.console(), auto_refresh=False) as live:
        while True:
            goes_on = held(space.lock)
            live.update(summarised(str(space.root), read(space), running=goes_on), refresh=True)
            if not goes_on:
                return
            time.sleep(1)
