"""`nightschool bench l0`: the token tax of an instruction file, or of one way to keep it against another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli.bench_run import BENCHES, Asked, Format, Plot, Quick, Repeats, Save, ran, show
from nightschool.cli.options import Backend, Json, Model, ModelsFile


def add(app: typer.Typer) -> None:
    """Add the command to `nightschool bench`."""
    app.command("l0", help=HELP)(l0)


HELP = f"""{BENCHES["l0"].help}

@imports are followed and counted. Of an imported SEK tree alone, what it was before is shown beside it. With --prompts, what
a task costs in all: L0 and the pages that its prompt routes in."""


def l0(
    file: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="An instruction file, a SEK tree or a project.", show_default=".")
    ] = Path(),
    other: Annotated[
        Path | None,
        typer.Argument(metavar="FILE2|DIR2", help="What to set beside it: before, after.", show_default=False),
    ] = None,
    sessions: Annotated[
        int, typer.Option("--sessions-per-day", metavar="N", min=1, help="For the figures of a day and a year.")
    ] = 20,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help='Prompts: one a line, or JSON Lines with "prompt".')
    ] = None,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    repeats: Repeats = None,
    quick: Quick = False,
    form: Format = "table",
    as_json: Json = False,
    save: Save = True,
    plot: Plot = None,
) -> None:
    """See HELP."""
    from nightschool.bench.l0_read import prompts as read

    paths = (file,) if other is None else (file, other)
    asked = Asked(model, models, backend, repeats, quick)
    texts = read(prompts) if prompts else ()
    record = ran("l0", asked, paths=paths, sessions_per_day=sessions, prompts=texts)
    show(record, form, as_json, save, plot)
