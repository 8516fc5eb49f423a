"""All commands of the command line, put together: what `main` runs unless a shorter way leads there."""

from __future__ import annotations

import typer

from nightschool.cli import (
    bench,
    doctor,
    evaluate,
    evolve,
    models,
    new,
    route,
    sek,
    skills,
    status,
    suite,
    trace,
    usage,
    wiki,
)

app = typer.Typer(
    name="nightschool",
    help="A local model learns your job overnight, and you can trust the result in the morning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(usage.root)
app.command("new")(new.new)
app.command("evolve")(evolve.evolve)
app.command("status")(status.status)
app.command("eval")(evaluate.evaluate)
app.command("trace")(trace.trace)
app.add_typer(skills.app, name="skills")
app.add_typer(suite.app, name="suite")
app.command("route")(route.route)
app.add_typer(sek.app, name="sek")
app.add_typer(wiki.app, name="wiki")
app.add_typer(models.app, name="models")
app.add_typer(bench.app, name="bench")
app.command("doctor")(doctor.doctor)
