"""`nightschool evolve`: run a night, or go on with the one that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from nightschool.cli import STOPPED, output
from nightschool.cli.options import HERE, Backend, Dir, Json, Model, ModelsFile, every_role


def evolve(
    folder: Dir = HERE,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-k", metavar="K", help="Rounds of study, proposal and gate.")
    ] = None,
    model: Model = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Everything drawn follows from it.")] = None,
    gate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="When a candidate is kept: strict, sure, tie or confirm."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A night that checks the others: random, shuffled, placebo or nowiki."),
    ] = None,
    min_reads: Annotated[
        int | None, typer.Option(metavar="N", help="Traces that the proposer reads before it may propose.")
    ] = None,
    student_temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Sampling noise of the student; 0 is none.")
    ] = None,
    inject: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which skills a task's student reads: full (all) or routed.")
    ] = None,
    test_wiki: Annotated[
        bool | None,
        typer.Option(
            "--test-wiki", help="Let the student look into the wiki, on the test split only.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of [evolve] (docs/suites.md), written as there."),
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, metavar="N", help="Rows decoded together, at most.")] = None,
    as_json: Json = False,
) -> None:
    """Run a night, or go on with the one that was stopped.

    Flags win over [evolve] in suite.toml and are kept in config.json. Ctrl-C stops at the next step, twice at once (exit
    code 130); the same command goes on.
    """
    from nightschool.cli import engines, stopping, view
    from nightschool.cli.summary import summary
    from nightschool.loop.crew import Interrupted
    from nightschool.loop.evolve import evolve as run
    from nightschool.loop.nights import open_night, resolve
    from nightschool.loop.report import status
    from nightschool.loop.workspace import find

    space = find(folder)
    flags = {
        "iterations": iterations,
        "models": every_role(model),
        "backend": backend,
        "seed": seed,
        "gate": gate,
        "control": control,
        "min_reads": min_reads,
        "student_temperature": student_temperature,
        "inject": inject,
        "test_wiki": test_wiki,
    }
    config = resolve(
        space, assigned(settings or ()) | {key: value for key, value in flags.items() if value is not None}
    )
    models = engines.load_models(models_file)
    roles = engines.roles(models, config)
    farewell = f"stopped; go on with: {output.command('evolve', folder)}"
    try:
        with view.watch(space) as watcher:
            opener = engines.opener(models, config, space, width=width, say=watcher.note)
            beside = engines.together(models, config)
            stops = stopping.Stops(farewell, watcher.note)
            with stops.watching(), open_night(space, config, roles, opener, watcher, together=beside) as night:
                stops.crew = night.crew
                run(night)
    except Interrupted:
        output.say(farewell)
        raise typer.Exit(STOPPED) from None
    record = status(space)
    output.data(record) if as_json else summary(space, record)


def assigned(pairs: Sequence[str]) -> dict[str, Any]:
    """`--set KEY=VALUE`, each value written as in suite.toml (a text may do without its quotes)."""
    import tomllib

    from nightschool.disk.errors import Problem, nearest
    from nightschool.loop.settings import EvolveSettings

    names = {field.validation_alias or name: name for name, field in EvolveSettings.model_fields.items()}
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise Problem(f"--set {pair} has no value", f"write --set {pair}=VALUE")
        if key not in names:
            raise Problem(f"--set {pair}: unknown key {key!r}", nearest(key, map(str, names)))
        try:
            found[names[key]] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[names[key]] = text
    return found
