"""`nightschool wiki ingest | query | lint`: sources become pages, and questions are answered from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.options import TREE, Backend, Json, Model, ModelsFile, SekDir
from nightschool.cli.sek_import import engine, lint

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine

app = typer.Typer(help="Make pages of sources, and answer questions from them, with citations.", no_args_is_help=True)


@app.command()
def ingest(
    source: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A text, or a folder of texts.")],
    root: SekDir = TREE,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Make pages of a text: a model says what each piece is about, code quotes and files it.

    Sources are kept unchanged in sources/. Twice changes nothing; a stopped run goes on where it was. Exit code 1: a file
    could not be read, or of a piece no page could be made.
    """
    from nightschool.disk.errors import MachineProblem, Problem
    from nightschool.sek import sources
    from nightschool.sek.ingest import Done
    from nightschool.sek.ingest import ingest as work
    from nightschool.sek.tree import Tree

    tree = Tree.find(root)
    files = sources.find(source)
    if not files:
        raise Problem(f"no text in {source}", f"texts end in {', '.join(sorted(sources.SUFFIXES))}")
    done: list[Done] = []
    unread: list[str] = []
    with _loaded(model, models, backend) as loaded:
        for path in files:
            try:
                done.append(work(tree, sources.read(path), loaded, say=output.say))
            except MachineProblem:
                raise
            except Problem as problem:
                if len(files) == 1:
                    raise
                unread.append(problem.what)
    failed = [f"{found.source}:{piece}" for found in done for piece in found.failed]
    if as_json:
        record = [
            {"source": each.source, "pages": each.pages, "known": each.known, "failed": each.failed} for each in done
        ]
        output.data({"schema": 1, "sources": record, "unread": unread})
    else:
        made, known = [path for each in done for path in each.pages], sum(each.known for each in done)
        for page in made:
            typer.echo(page)
        output.say(f"{len(made)} pages made, {known} pieces known already")
    for line in unread:
        output.say(f"left out: {line}")
    for line in failed:
        output.say(f"no page made of {line}")
    if unread or failed:
        raise typer.Exit(1)


@app.command()
def query(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What is asked (-: read stdin).")],
    root: SekDir = TREE,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Answer a question from the wiki; the answer cites what it rests on. Exit code 1: the wiki does not tell."""
    from nightschool.sek.query import query as ask
    from nightschool.sek.tree import Tree

    tree = Tree.find(root)
    with _loaded(model, models, backend) as loaded:
        found = ask(tree, sys.stdin.read() if question == "-" else question, loaded)
    if as_json:
        output.data({"schema": 1, **found.record()})
    elif found.text is not None:
        typer.echo(found.text)
        for cited in found.cites:
            typer.echo(f"  {cited.path}:{cited.line}")
    if found.text is None:
        output.say("the wiki does not tell" + (f"; looked at: {', '.join(found.pages)}" if found.pages else ""))
        raise typer.Exit(1)


app.command("lint")(lint)


class _loaded(engine):
    """The model that was asked for, or that of the maintainer."""

    def __enter__(self) -> Engine:
        from nightschool.cli.engines import load_models

        self.model = self.model or load_models(self.models).roles.maintainer
        loaded: Any = super().__enter__()
        return loaded  # type: ignore[no-any-return]
