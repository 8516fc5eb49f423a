"""`nightschool evolve`: run a night, or go on with the one that was stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Backend, Dir, Model, ModelsFile

if TYPE_CHECKING:
    from nightschool.loop.crew import Crew


def evolve(
    folder: Dir = HERE,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-k", min=1, help="Rounds of study, proposal and gate.")
    ] = None,
    model: Model = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    gate: Annotated[str | None, typer.Option(help="strict, tie or confirm.")] = None,
    control: Annotated[
        str | None, typer.Option(help="random, shuffled, placebo or nowiki: nights that check the others.")
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Rows decoded together, at most.")] = None,
    min_reads: Annotated[int | None, typer.Option(help="Traces read before a proposal.")] = None,
    temperature: Annotated[
        float | None, typer.Option("--student-temperature", help="Sampling noise of the student.")
    ] = None,
) -> None:
    """Learn from the train tasks until the iterations are done; run again to go on after a stop."""
    from nightschool.cli import engines, view
    from nightschool.loop.crew import UNIFORM, Interrupted
    from nightschool.loop.evolve import evolve as run
    from nightschool.loop.nights import open_night, resolve
    from nightschool.loop.report import status
    from nightschool.loop.workspace import find

    space = find(folder)
    chosen = dict.fromkeys(("student", "maintainer", "proposer"), model) if model else None
    config = resolve(
        space,
        {
            "iterations": iterations,
            "models": chosen,
            "backend": backend,
            "seed": seed,
            "gate": gate,
            "control": control,
            "min_reads": min_reads,
            "student_temperature": temperature,
        },
    )
    models = engines.load_models(models_file)
    roles = engines.roles(models, config)
    if config.control == "random":
        roles |= {"maintainer": UNIFORM, "proposer": UNIFORM}
    opener = engines.opener(models, config, width=width)
    try:
        with (
            view.watch(space) as watcher,
            open_night(space, config, roles, opener, watcher) as night,
            _interruptible(night.crew),
        ):
            run(night)
    except Interrupted:
        output.say(f"stopped; go on with: nightschool evolve {folder}")
        raise typer.Exit(130) from None
    view.summary(space, status(space))


@contextmanager
def _interruptible(crew: Crew) -> Iterator[None]:
    """The first Ctrl-C stops at the next step, the second at once."""

    def stop(number: int, frame: object) -> None:
        if crew.stopping:
            raise KeyboardInterrupt
        crew.stopping = True
        output.say("stopping after this step; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
