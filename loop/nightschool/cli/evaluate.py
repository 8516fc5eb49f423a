"""`nightschool eval`: one split with given skills; writes no night."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Backend, Dir, Json, Model, ModelsFile, every_role

if TYPE_CHECKING:
    from nightschool.loop.workspace import Workspace


def evaluate(
    folder: Dir = HERE,
    split: Annotated[str, typer.Option(metavar="NAME", help="train, val or test.")] = "test",
    skills: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="A skills folder, or `none` (default: the accepted skills).", show_default=False
        ),
    ] = "",
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Runs; more than one shows the noise floor.")] = 1,
    model: Model = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Score one split with the accepted skills, others, or none, and name the tasks that fail.

    It is no night: neither the journal nor skills/ change. With --repeats the failed tasks are those of the first run.
    """
    from nightschool.cli import engines
    from nightschool.cli.view import shortened
    from nightschool.disk.errors import Problem, nearest
    from nightschool.loop.evaluate import SPLITS
    from nightschool.loop.evaluate import evaluate as run
    from nightschool.loop.workspace import find

    space = find(folder)
    if split not in SPLITS:
        raise Problem(f"unknown split {split!r}", nearest(split, SPLITS))
    where = skills_folder(space, skills)
    config = space.config().changed(models=every_role(model), backend=backend)
    models = engines.load_models(models_file)
    student = engines.roles(models, config)["student"]
    engine = engines.opener(models, config, space)(student)
    try:
        with output.telling() as show:

            def once(n: int) -> dict[str, Any]:
                step = f"{split} {n}" if repeats > 1 else split
                return run(space, config, engine, split, where, lambda done, of: show(step, done, of))

            records = [once(n + 1) for n in range(repeats)]
    finally:
        engine.close()
    floor = [records[0]["scores"][task] != other["scores"][task] for other in records[1:] for task in other["scores"]]
    record = {**records[0], "repeats": [item["score"] for item in records], "changed": sum(floor)}
    if as_json:
        output.data(record)
        return
    scores = ", ".join(f"{item['score']:.3f}" for item in records)
    print(f"{split}: {scores} over {record['tasks']} tasks with {', '.join(record['skills']) or 'no skills'}")
    for item in record["failed"]:
        print(f"  {item['task']}: {item['score']:.3f}, {shortened(' '.join(item['reason'].split()))}")
    if repeats > 1:
        print(f"noise floor: {sum(floor)} of {len(floor)} repeated answers scored differently")


def skills_folder(space: Workspace, named: str) -> Path | None:
    """The folder that `--skills` names; a folder in which there is no skill is a mistake, save the workspace's own."""
    from nightschool.disk.errors import Problem

    if named == "none":
        return None
    folder = Path(named) if named else space.skills
    if named and not any(folder.glob("*/SKILL.md")):
        raise Problem(f"{folder} is not a folder of skills", "give a folder with NAME/SKILL.md in it, or `none`")
    return folder
