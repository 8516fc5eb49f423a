"""`nightschool wiki ingest | query | lint`: a model writes pages from sources and answers from them, with citations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightschool.cli import output, sek_import
from nightschool.cli.options import TREE, Backend, Json, Model, ModelsFile, SekDir

if TYPE_CHECKING:
    from nightschool.disk.errors import Problem
    from nightschool.engine.engine import Engine
    from nightschool.sek.importer_read import Source
    from nightschool.sek.ingest import Filed
    from nightschool.sek.query import Answer
    from nightschool.sek.tree import Tree

app = typer.Typer(help="Pages from sources, and answers from pages, each with its citation.", no_args_is_help=True)


@app.command()
def ingest(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR...", help="Files of text, or folders of them.", show_default=False)
    ],
    root: SekDir = TREE,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Read sources with a model, and file what they say as pages that quote them line by line.

    Each source is kept unchanged in raw/sources. What was ingested is not read again; an ingest that was stopped goes on.
    """
    from nightschool.sek.ingest import pending
    from nightschool.sek.sources import gather
    from nightschool.sek.tree import Tree

    tree = Tree.find(root)
    sources, left = gather(paths, tree)
    for problem in left:
        output.say(f"left out: {problem.what}")
    wanted = pending(tree, sources)
    filed = _ingested(tree, wanted, (model, models, backend), as_json) if wanted else []
    if as_json:
        told = [{"what": problem.what, "fix": problem.advice} for problem in left]
        output.data({"schema": 1, "pages": [asdict(page) for page in filed], "left_out": told})
    before = len(sources) - len(wanted)
    output.say(f"pages written: {len(filed)}; sources read: {len(wanted)}, ingested before: {before}")
    if left:
        raise _left_out(left)


@app.command()
def query(
    question: Annotated[str, typer.Argument(metavar="TEXT", help="The question.", show_default=False)],
    root: SekDir = TREE,
    budget: Annotated[
        int | None, typer.Option(min=1, metavar="TOKENS", help="Tokens of pages to show (default: the tree's).")
    ] = None,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Answer a question from the pages that it routes to, with the lines that the answer stands on.

    Exit code 1: the wiki does not have it. If no page fits the question, no model is asked.
    """
    from nightschool.sek.query import Answer, routed
    from nightschool.sek.query import query as ask
    from nightschool.sek.router import Router
    from nightschool.sek.tree import Tree

    tree = Tree.find(root)
    route = Router.load(tree).route(question, budget)
    pages = routed(route)
    answer = Answer(None, (), (), None, None)
    if pages:
        with _engine("student", model, models, backend) as loaded:
            answer = ask(tree, question, pages, route.budget, loaded)
    if as_json:
        output.data({"schema": 1, "question": question, **answer.record()})
    else:
        _show(answer)
    if answer.text is None:
        raise typer.Exit(1)


@app.command()
def lint(
    root: SekDir = TREE,
    fix: Annotated[bool, typer.Option("--fix", help="Make the changes that are safe: triggers and indexes.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Show notes too.")] = False,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Check a tree as `sek lint` does, and that each page still quotes a source that is there and unchanged.

    Exit code 1: an error is left.
    """
    from nightschool.sek.lint_sources import check
    from nightschool.sek.tree import Tree

    tree = Tree.find(root)
    choice = (model, models, backend)
    sek_import.check(tree.root, lambda: check(tree), fix=fix, notes=notes, choice=choice, as_json=as_json)


def _ingested(
    tree: Tree, sources: list[Source], choice: tuple[str | None, Path | None, str | None], as_json: bool
) -> list[Filed]:
    """Read them; each page is told as it is written, and kept whatever comes after it."""
    from nightschool.disk.errors import MachineProblem
    from nightschool.sek.ingest import ingest as read

    filed: list[Filed] = []
    try:
        with _engine("maintainer", *choice) as loaded:
            for page in read(tree, sources, loaded):
                filed.append(page)
                if not as_json:
                    typer.echo(f"written  {page.path}  from {page.source}:{page.first}-{page.last}")
    except KeyboardInterrupt:
        output.say(f"stopped: {len(filed)} pages are kept; the same command goes on")
        raise typer.Exit(130) from None
    except MachineProblem:
        output.say(f"{len(filed)} pages are kept; the same command goes on")
        raise
    return filed


@contextmanager
def _engine(role: str, model: str | None, models: Path | None, backend: str | None) -> Iterator[Engine]:
    """The model that was asked for, else the one that plays this role."""
    from nightschool.cli.engines import load_models

    alias = model or getattr(load_models(models).roles, role)
    with sek_import.engine(alias, models, backend) as loaded:
        assert loaded is not None
        yield loaded


def _left_out(left: list[Problem]) -> Problem:
    """The end of a command that could not take all that it was given."""
    from nightschool.disk.errors import Problem

    if len(left) == 1:
        return left[0]
    return Problem(f"{len(left)} files were left out, as told above; the rest is done", left[0].advice)


def _show(answer: Answer) -> None:
    if answer.usage is None:
        output.say("no page fits the question: no model was asked")
        return
    if answer.text is None:
        output.say(f"not in the wiki, by {', '.join(answer.pages)}")
    else:
        typer.echo(answer.text)
        for each in answer.citations:
            typer.echo(f"  {each.path}:{each.line}: {each.text}" + (f" ({each.source})" if each.source else ""))
    usage = answer.usage
    output.say(f"{usage.prompt_tokens} tokens of prompt, {usage.generated_tokens} of reply, by {answer.model}")
