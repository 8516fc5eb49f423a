"""`nightschool suite`: look at the tasks before a night is spent on them.

What is checked is told in nightschool.loop.suite_check; the format, in docs/suites.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Json
from nightschool.disk.errors import Problem

app = typer.Typer(help="Look at the tasks before a night is spent on them.", no_args_is_help=True)


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A suite, or a workspace that has one.")] = HERE,
    as_json: Json = False,
) -> None:
    """Read a suite and say what it can show, or all that is wrong with it.

    Exit code 1: some task cannot be graded right; 2: it cannot be read.
    """
    from nightschool.loop.suite import read_suite
    from nightschool.loop.suite_check import check_suite

    suite, faults = read_suite(folder / "suite" if (folder / "suite" / "suite.toml").is_file() else folder)
    if suite is None:
        _unreadable(faults, as_json)
        raise typer.Exit(2)
    findings = check_suite(suite)
    counts = {"train": len(suite.train), "val": len(suite.val), "test": len(suite.test)}
    if as_json:
        record = {"name": suite.name, "sha": suite.sha, "tasks": counts}
        output.data({**record, "findings": [asdict(finding) for finding in findings]})
    else:
        typer.echo(f"{suite.name}: " + ", ".join(f"{count} {split}" for split, count in counts.items()))
        for finding in findings:
            typer.echo(f"{finding.level}: {finding.text}")
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(1)


def _unreadable(faults: Sequence[Problem], as_json: bool) -> None:
    """Every fault, with its file and line."""
    if as_json:
        output.data({"findings": [{"level": "error", "text": fault.what, "try": fault.advice} for fault in faults]})
        return
    for fault in faults:
        output.problem(fault)
    if len(faults) > 1:
        output.say(f"{len(faults)} faults")


@app.command("list")
def list_suites(as_json: Json = False) -> None:
    """Name the suites that come with nightschool.

    `new --suite NAME:SEED` makes other tasks of the same kind.
    """
    from nightschool.loop.suites.generated import GENERATORS

    rows = [(name, _about(make)) for name, make in sorted(GENERATORS.items())]
    if as_json:
        output.data([{"name": name, "about": about} for name, about in rows])
    else:
        output.table(("suite", "about"), rows)


def _about(make: object) -> str:
    """The first line of the docstring of the module that makes a suite."""
    return (sys.modules[make.__module__].__doc__ or "").strip().split("\n")[0]
