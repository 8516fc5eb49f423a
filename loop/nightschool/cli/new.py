"""`nightschool new`: a workspace with its suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Backend, Model, ModelsFile


def new(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to make (or `.`).", show_default=False)
    ] = HERE,
    suite: Annotated[
        str, typer.Option("--suite", "-s", help="style[:SEED], runbook[:SEED], or a folder of your own.")
    ] = "style",
    model: Model = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
    seed: Annotated[int, typer.Option(help="Seed of the run; everything drawn follows from it.")] = 0,
) -> None:
    """Make a workspace: tasks, empty skills and wiki, and the configuration of its nights."""
    from nightschool.cli.engines import load_models
    from nightschool.loop.workspace import Config, create

    models = load_models(models_file)
    if model is not None:
        models.get(model)
    chosen = dict.fromkeys(("student", "maintainer", "proposer"), model) if model else {}
    space = create(folder, suite, Config(suite=suite, models=chosen, backend=backend, seed=seed))
    config = space.config()
    output.say(f"made {folder} with suite {suite} and model {config.models.get('student') or models.roles.student}")
    output.say(f"next: nightschool evolve {folder}")
