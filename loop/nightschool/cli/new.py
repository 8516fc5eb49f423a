"""`nightschool new`: a workspace with its suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Backend, Model, ModelsFile, every_role


def new(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to make (default: this one).", show_default=False)
    ] = HERE,
    suite: Annotated[
        str,
        typer.Option("--suite", "-s", metavar="NAME|PATH", help="`suite list` names them; or a folder: ./my-suite."),
    ] = "style",
    model: Model = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Everything drawn follows from it.")] = 0,
) -> None:
    """Make a workspace: tasks, and room for a wiki and skills.

    Inside a project that has other files it is made as well, if none of its own exist.
    """
    from nightschool.cli.engines import load_models
    from nightschool.engine.select import resolve
    from nightschool.loop.workspace import Config, create

    models = load_models(models_file)
    student = resolve(models, model or models.roles.student, backend)[0]
    create(folder, suite, Config(suite=suite, models=every_role(model) or {}, backend=backend, seed=seed))
    output.say(f"made {folder} with suite {suite} and model {student.alias}")
    if not student.ready:
        output.say(f"next: {output.command('models', 'pull', student.alias)}")
    output.say(f"next: {output.command('evolve', folder)}")
