"""`nightschool status`: what the last night came to, or how far it is."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Dir, Json


def status(
    folder: Dir = HERE,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print again every two seconds until the night ends.")] = False,
) -> None:
    """The last night of a workspace: scores, what was accepted, tokens, the test split."""
    from nightschool.cli import view
    from nightschool.loop.report import status as read
    from nightschool.loop.workspace import find

    space = find(folder)
    while True:
        record = read(space)
        if as_json:
            output.data(record)
        else:
            view.summary(space, record)
        if not watch or record["state"] != "unfinished":
            return
        time.sleep(2)
