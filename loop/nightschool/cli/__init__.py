"""The command line: composes the other layers; the only place that prints or exits.

Commands are thin; each loads what it needs when it runs, so that `--help` loads no model library. Exit codes: 0; 1 lint
or regression; 2 bad input; 3 stopped by the machine, resumable; 130 stopped by Ctrl-C, resumable.
"""

from __future__ import annotations

import os
import sys

import typer

from nightschool.cli import doctor, evaluate, evolve, models, new, output, skills, status, suite, trace
from nightschool.disk.errors import Problem

app = typer.Typer(
    name="nightschool",
    help="A local model learns your job overnight, and you can trust the result in the morning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("new")(new.new)
app.command("evolve")(evolve.evolve)
app.command("status")(status.status)
app.command("eval")(evaluate.evaluate)
app.command("trace")(trace.trace)
app.add_typer(skills.app, name="skills")
app.add_typer(suite.app, name="suite")
app.add_typer(models.app, name="models")
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run one command; a person never sees a traceback (unless NIGHTSCHOOL_DEBUG is set)."""
    debug = bool(os.environ.get("NIGHTSCHOOL_DEBUG"))
    try:
        app()
    except Problem as error:
        if debug:
            raise
        output.problem(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        output.problem(
            Problem(f"nightschool failed: {kind}: {error}", "set NIGHTSCHOOL_DEBUG=1 and report what it prints")
        )
        sys.exit(3)
