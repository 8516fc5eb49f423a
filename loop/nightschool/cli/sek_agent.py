"""`nightschool sek init | adopt | index | hook | context`: a tree, and how a coding agent is joined to it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import TREE, Json, SekDir
from nightschool.disk.errors import Problem

HOOKED = "claude-code"


def add(app: typer.Typer) -> None:
    """Add these commands to `nightschool sek`."""
    for command in (init, adopt, index, hook, context):
        app.command()(command)


def init(
    agent: Annotated[str, typer.Option(metavar="NAME", help="claude, codex, gemini or generic (any other agent).")],
    root: SekDir = TREE,
    language: Annotated[
        str, typer.Option(metavar="TEXT", help="The language that the agent answers in.")
    ] = "the language that I am asked in",
    as_json: Json = False,
) -> None:
    """Make a new tree: L0, routing, inbox, and /register, /promote and /revoke as the agent's own commands.

    What is there already is kept as it is.
    """
    from nightschool.sek.counting import counter
    from nightschool.sek.start import init as make
    from nightschool.sek.tree import Tree

    made = make(Tree(root.resolve()), agent, counter(cwd=root), language)
    if as_json:
        output.data({"schema": 1, **asdict(made)})
        return
    for path in made.written:
        typer.echo(f"written  {path}")
    for path in made.kept:
        typer.echo(f"kept     {path}")


def adopt(root: SekDir = TREE, as_json: Json = False) -> None:
    """Make an existing wiki/ a tree: routing, index and inbox are added, and no file is moved or changed."""
    from nightschool.sek.adopt import adopt as make
    from nightschool.sek.counting import counter
    from nightschool.sek.tree import Tree

    made = make(Tree(root.resolve()), counter(cwd=root))
    for problem in made.problems:
        output.say(f"left out: {problem}")
    if as_json:
        output.data({"schema": 1, **asdict(made)})
        return
    typer.echo(f"{made.pages} pages, {made.triggers} triggers; L0 is {made.bootstrap}")
    for path in made.written:
        typer.echo(f"written  {path}")


def index(
    root: SekDir = TREE,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if an index is out of date.")
    ] = False,
) -> None:
    """Bring wiki/_index.md and the term cache in step with the pages; an index that a person wrote stays."""
    from nightschool.disk.files import write_atomic
    from nightschool.sek.counting import counter
    from nightschool.sek.index import outdated
    from nightschool.sek.router import Router
    from nightschool.sek.tree import Tree

    tree = Tree.find(root)
    count = counter(cwd=tree.root)
    changed = outdated(tree, count.count)
    for path, text in changed.items():
        typer.echo(f"{'out of date' if check else 'written'}  {path}")
        if not check:
            write_atomic(tree.inside(path), text)
    if check:
        raise typer.Exit(1 if changed else 0)
    Router.load(tree, count).index.save(tree, count)


def hook(
    install: Annotated[str | None, typer.Option(metavar="AGENT", help="Put the hook in: claude-code.")] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Take the hook out, and restore: claude-code.")
    ] = None,
    root: SekDir = TREE,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The settings to change (default: .claude/settings.json).")
    ] = None,
) -> None:
    """Join the tree to an agent: at every prompt it is given the pages that fit, each once a session."""
    from nightschool.sek import hook as hooks
    from nightschool.sek.tree import Tree

    agent = install or remove
    if agent is None or (install and remove):
        raise Problem("give --install or --remove", f"nightschool sek hook --install {HOOKED}")
    if agent != HOOKED:
        raise Problem(
            f"there is no hook for {agent!r}", f"{HOOKED}; other agents use the MCP server: nightschool sek mcp"
        )
    tree = Tree.find(root)
    file = settings or tree.root / hooks.SETTINGS
    changed = hooks.install(file) if install else hooks.remove(file)
    typer.echo(f"{file}: {('installed' if install else 'removed') if changed else 'nothing to change'}")


def context() -> None:
    """Answer an agent's prompt hook (its JSON on stdin) with the pages that fit; on any fault silent, exit code 0."""
    from nightschool.sek.context import main

    raise typer.Exit(main())
