"""`nightschool sek mcp`: the MCP server, over stdin and stdout."""

from __future__ import annotations

from typing import Annotated

import typer

from nightschool.cli.options import TREE, SekDir


def add(app: typer.Typer) -> None:
    """Add this command to `nightschool sek`."""
    app.command()(mcp)


def mcp(
    root: SekDir = TREE,
    session: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The agent's session (default: a new one).", envvar="NIGHTSCHOOL_SESSION"),
    ] = None,
) -> None:
    """Serve the tree to an agent by the Model Context Protocol, on stdin and stdout, until they close.

    Tools: route, read, register, promote, revoke, search.
    """
    from nightschool.sek.server import build

    build(root, session).run("stdio")
