"""`nightschool bench all`, each bench in a process of its own, and bare `nightschool bench`: a first look."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nightschool.cli import output
from nightschool.cli.bench_run import BENCHES, Asked, Format, Plot, Quick, Repeats, Save, drawn, is_there, ran
from nightschool.cli.options import Backend, Json, Model, ModelsFile
from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from nightschool.bench.result import Record

QUICK_SECONDS = 290.0
"""What all benches together may take with --quick."""
RESERVED = 45.0
"""Of these, what each bench leaves to every one after it."""


def add(app: typer.Typer) -> None:
    """Add the command to `nightschool bench`."""
    app.command("all")(every)


def every(
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    repeats: Repeats = None,
    quick: Quick = False,
    form: Format = "table",
    as_json: Json = False,
    save: Save = True,
    plot: Plot = None,
) -> None:
    """Run every bench, one after the other, each in a fresh process.

    With --quick all of them together end within five minutes; one that would take longer is cut, and that is said. Exit
    code 1: a bench failed or was cut.
    """
    from nightschool.bench import render, result

    asked = Asked(model, models, backend, repeats, quick)
    ends = time.monotonic() + QUICK_SECONDS if quick else None
    records = []
    # The first of the table are the longest: last, they have the time that the others leave.
    names = [name for name in reversed(BENCHES) if is_there(name) and (name != "l0" or _has_instructions())]
    for number, name in enumerate(names):
        share = None if ends is None else max(ends - time.monotonic() - RESERVED * (len(names) - number - 1), 0.01)
        output.say(f"{name} ..." if share is None else f"{name} ... (at most {share:.0f} s)")
        if record := _apart(name, asked, share):
            records.append(record)
    if save:
        for record in records:
            output.say(f"kept: {result.save(record)}")
    if plot and records:
        drawn(records, plot)
    print(render.render(records, "json" if as_json else form), flush=True)
    if len(records) < len(names):
        raise typer.Exit(1)


def glance() -> None:
    """The token tax of this folder, and a quick table of what the student does a second."""
    from nightschool.bench import render

    asked = Asked(quick=True)
    if _has_instructions():
        print(render.render([ran("l0", asked)], "table"), flush=True)
    else:
        output.say("no instruction file here, so no token tax: nightschool bench l0 FILE")
    if not is_there("throughput"):
        return
    try:
        record = ran("throughput", asked)
    except Problem as problem:
        output.say(f"no speed: {problem.what}; {problem.advice}")
        return
    print(f"\n{render.render([record], 'table')}", flush=True)


def _has_instructions() -> bool:
    from nightschool.bench.l0_read import standing

    try:
        standing(Path())
    except Problem:
        return False
    return True


def _apart(name: str, asked: Asked, seconds: float | None) -> Record | None:
    """The record of a bench that ran in a process of its own; None if it failed, which is said."""
    import subprocess
    import tempfile

    from nightschool.bench import result

    options = {"--model": asked.model, "--models": asked.models, "--backend": asked.backend, "--repeats": asked.repeats}
    given = [str(part) for pair in options.items() if pair[1] is not None for part in pair]
    given += ["--quick"] if asked.quick else []
    command = [sys.executable, "-m", "nightschool.cli", "bench", name, "--json", "--no-save", *given]
    with tempfile.TemporaryDirectory(prefix="nightschool-") as folder:
        kept = Path(folder) / "record.json"
        try:
            with kept.open("wb") as out:
                code = subprocess.run(command, stdout=out, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            output.say(f"{name}: cut after {seconds:.0f} s; nightschool bench {name} takes the time it needs")
            return None
        if code:
            output.say(f"{name}: failed, see above")
            return None
        return result.load(kept)
