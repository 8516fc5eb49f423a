"""`nightschool eval`: one split with given skills; writes no night."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Backend, Dir, Json, Model, ModelsFile


def evaluate(
    folder: Dir = HERE,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    skills: Annotated[str, typer.Option(help="A skills folder, or `none` (default: the accepted skills).")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Runs; more than one shows the noise floor.")] = 1,
    model: Model = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Score one split with the accepted skills, with others, or with none."""
    from nightschool.cli import engines
    from nightschool.loop.evaluate import evaluate as run
    from nightschool.loop.workspace import find

    space = find(folder)
    chosen = dict.fromkeys(("student", "maintainer", "proposer"), model) if model else None
    config = space.config().changed(models=chosen, backend=backend)
    models = engines.load_models(models_file)
    engine = engines.opener(models, config)(engines.roles(models, config)["student"])
    try:
        where = None if skills == "none" else Path(skills) if skills else space.skills
        records = [run(space, config, engine, split, where) for _ in range(repeats)]
    finally:
        engine.close()
    floor = [records[0]["scores"][task] != other["scores"][task] for other in records[1:] for task in other["scores"]]
    record = {**records[0], "repeats": [item["score"] for item in records], "changed": sum(floor)}
    if as_json:
        output.data(record)
        return
    scores = ", ".join(f"{item['score']:.3f}" for item in records)
    print(f"{split}: {scores} over {record['tasks']} tasks with {record['skills'] or 'no'} skills")
    if repeats > 1:
        print(f"noise floor: {sum(floor)} of {len(floor)} repeated answers scored differently")
