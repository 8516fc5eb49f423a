"""The command line: composes the other layers; the only place that prints or exits.

Commands are thin; each loads what it needs when it runs, so that `--help` loads no model library. `sek context`, which runs
at every prompt of an agent, does not even load the parser. Exit codes: 0; 1 lint or regression; 2 bad input; 3 stopped by
the machine, resumable; 130 stopped by Ctrl-C or SIGTERM, resumable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nightschool.disk.errors import Problem

HOOK = ["sek", "context"]
STOPPED = 130
"""The exit code after Ctrl-C or SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a person never sees a traceback (unless NIGHTSCHOOL_DEBUG is set)."""
    if list(sys.argv[1:] if arguments is None else arguments) == HOOK:
        return _hook()
    import typer

    from nightschool.cli import usage
    from nightschool.cli.commands import app
    from nightschool.disk.errors import Problem

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


def __getattr__(name: str) -> Any:
    """`app`, for those who look at the commands, such as the documentation."""
    if name == "app":
        from nightschool.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _hook() -> int:
    try:
        from nightschool.sek.context import main as answer

        return answer()
    except BaseException:  # even a broken installation must not stop the agent
        return 0


def _told(problem: Problem, code: int | None = None) -> int:
    """Say what is wrong; NIGHTSCHOOL_DEBUG shows where, to those who mend nightschool."""
    from nightschool.cli import output

    if os.environ.get("NIGHTSCHOOL_DEBUG") and sys.exc_info()[0]:
        raise
    output.problem(problem)
    return problem.exit_code if code is None else code
