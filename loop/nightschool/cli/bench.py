"""`nightschool bench`: what a model, a machine and an instruction file cost, in records that can be compared.

Each bench of the table is a command with the common options; bench_*.py add the other commands.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from nightschool.cli import bench_all, bench_l0, bench_records
from nightschool.cli.bench_run import BENCHES, Asked, Format, Plot, Quick, Repeats, Save, Set, ran, show
from nightschool.cli.options import Backend, Json, Model, ModelsFile

app = typer.Typer(help="Measure tokens a second, the start of a context, and what standing instructions cost.")


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure tokens a second, the start of a context, and what standing instructions cost.

    Without a command: the token tax of the folder you stand in, then a quick table of the model's speed.
    """
    if context.invoked_subcommand is None:
        bench_all.glance()


def command(name: str) -> Callable[..., None]:
    """The command of one bench of the table."""

    def run(
        model: Model = None,
        models: ModelsFile = None,
        backend: Backend = None,
        repeats: Repeats = None,
        quick: Quick = False,
        sets: Set = None,
        form: Format = "table",
        as_json: Json = False,
        save: Save = True,
        plot: Plot = None,
    ) -> None:
        record = ran(name, Asked(model, models, backend, repeats, quick), sets or [])
        show(record, form, as_json, save, plot)

    run.__doc__ = BENCHES[name].help
    return run


bench_l0.add(app)
for each in BENCHES:
    if each != "l0":
        app.command(each)(command(each))
bench_all.add(app)
bench_records.add(app)
