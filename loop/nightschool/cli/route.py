"""`nightschool route`: which pages a text needs, why, and what each costs. Writes nothing."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.options import TREE, Json, SekDir


def route(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be done, in any words (-: read stdin).")],
    root: SekDir = TREE,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=0, help="Tokens to load at most (default: that of _routing.md).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say which pages of the wiki to load for a text, by which trigger, and what each costs."""
    from nightschool.sek.router import Router
    from nightschool.sek.tree import Tree

    router = Router.load(Tree.find(root))
    found = router.route(sys.stdin.read() if text == "-" else text, budget)
    if as_json:
        from dataclasses import asdict

        output.data({"schema": 1, **asdict(found)})
    else:
        _draw(found)
    for problem in router.index.problems:
        output.say(f"left out: {problem.what}")


def _why(load: Any) -> str:
    """Why a page is here, under its path."""
    return f"{'':10}{load.trigger}: {load.keyword}" if load.keyword else f"{'':10}{load.trigger}"


def _draw(found: Any) -> None:
    rows = [(str(load.tokens), f"{load.path}\n{_why(load)}") for load in found.loads]
    rows += [(str(load.tokens), f"{load.path}\n{_why(load)}, past the budget") for load in found.dropped]
    if rows:
        output.listing(("tokens", "page"), rows)
    about = ", estimated: no tokenizer on this machine" if found.estimated else ""
    loaded = sum(load.tokens for load in found.loads)
    typer.echo(
        f"L0 {found.l0_tokens} + pages {loaded} = {found.total_tokens} tokens (budget of pages {found.budget}{about})"
    )
    if found.fallback:
        output.say("nothing in the wiki fits these words: the index is the fallback")
    elif found.dropped:
        output.say(f"{len(found.dropped)} dropped, the least relevant: nightschool route --budget TOKENS loads more")
