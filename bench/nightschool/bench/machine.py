"""All that one kind of machine can show, in one command and one JSON file: `make mac-check`.

The engine's tests, every kernel against its oracle, a short night, and what a step of a batch costs; each a command of its
own, so that one that fails or hangs says so in the record and the others still run. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nightschool.disk.files import write_atomic

LIMIT = 1800
"""Seconds that one step may take."""
TAIL = 2000
"""Characters of a step's output that are kept."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and whether it prints JSON."""

    name: str
    command: tuple[str, ...]
    prints_json: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a step: `data` is the JSON that it printed, `tail` the end of its output otherwise."""

    name: str
    command: str
    ok: bool
    seconds: float
    data: Any
    tail: str


def steps(backend: str, work: Path) -> list[Step]:
    """What is run on a machine for this backend; `work` is an empty folder."""
    python, night = sys.executable, str(work / "night")
    cli = (python, "-m", "nightschool.cli")
    short = ("--iterations", "1", "--min-reads", "1", "--set", "max_turns=2", "--backend", backend)
    measures = {"vllm": (("agree",), ("overhead",))}.get(backend, (("masks", "--json"),))
    return [
        Step("doctor", (*cli, "doctor", "--json"), True),
        Step("engine", (python, "-m", "pytest", "-q", "tests/engine/backends", "tests/kernels")),
        Step("kernels", (*cli, "doctor", "--kernels", "--json"), True),
        Step("suite", (*cli, "new", night, "--suite", "style:7")),
        Step("night", (*cli, "evolve", night, *short)),
        Step("status", (*cli, "status", night, "--json"), True),
        *(Step(measure[0], (python, "-m", "bench", *measure), True) for measure in measures),
    ]


def run(step: Step) -> Result:
    """Run it, whatever comes of it."""
    began = time.perf_counter()
    try:
        done = subprocess.run(step.command, capture_output=True, text=True, timeout=LIMIT, check=False)
        ok, out, told = done.returncode == 0, done.stdout, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        ok, out, told = False, "", f"{_text(late.stdout)}{_text(late.stderr)}\nno end after {LIMIT} s"
    except OSError as error:
        ok, out, told = False, "", str(error)
    data = _json(out) if step.prints_json else None
    ok = ok and (data is not None or not step.prints_json)
    seconds = round(time.perf_counter() - began, 1)
    return Result(step.name, " ".join(step.command[1:]), ok, seconds, data, "" if data is not None else told[-TAIL:])


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything, write the record; exit code 1 if a step failed."""
    parser = argparse.ArgumentParser(prog="python -m bench machine", description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="mlx", choices=["mlx", "vllm", "transformers"])
    parser.add_argument("--out", type=Path, default=Path("machine-check.json"))
    args = parser.parse_args(argv)
    results = []
    with tempfile.TemporaryDirectory(prefix="nightschool-") as work:
        for step in steps(args.backend, Path(work)):
            print(f"{step.name} ...", file=sys.stderr, flush=True)
            results.append(run(step))
            print(f"{step.name}: {'ok' if results[-1].ok else 'FAILED'}, {results[-1].seconds} s", file=sys.stderr)
    record = {
        "schema": 1,
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "backend": args.backend,
        "ok": all(result.ok for result in results),
        "steps": [asdict(result) for result in results],
    }
    write_atomic(args.out, json.dumps(record, indent=1) + "\n")
    print(args.out)
    return 0 if record["ok"] else 1


def _text(output: bytes | str | None) -> str:
    """What a command had written when it was stopped: bytes even of a command that was read as text."""
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
