"""The command line: composes the other layers; the only place that prints or exits.

Commands are thin; each loads what it needs when it runs, so that `--help` loads no model library. Exit codes: 0; 1 lint
or regression; 2 bad input; 3 stopped by the machine, resumable; 130 stopped by Ctrl-C, resumable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from nightschool.cli import doctor, evaluate, evolve, models, new, output, skills, status, suite, trace, usage
from nightschool.disk.errors import Problem

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
app.add_typer(models.app, name="models")
app.command("doctor")(doctor.doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a person never sees a traceback (unless NIGHTSCHOOL_DEBUG is set)."""
    try:
        return int(app(arguments, prog_name="nightschool", standalone_mode=False) or 0)
    except Problem as error:
        return _told(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except typer.TyperException as error:
        found = usage.problem(error)
        return _told(found) if found else 0
    except Exception as error:
        what = f"nightschool failed: {type(error).__name__}: {error}"
        return _told(Problem(what, "set NIGHTSCHOOL_DEBUG=1 and report what it prints"), code=3)


def _told(problem: Problem, code: int | None = None) -> int:
    """Say what is wrong; NIGHTSCHOOL_DEBUG shows where, to those who mend nightschool."""
    if os.environ.get("NIGHTSCHOOL_DEBUG") and sys.exc_info()[0]:
        raise
    output.problem(problem)
    return problem.exit_code if code is None else code
