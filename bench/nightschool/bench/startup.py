"""What a context costs before the first useful token, each cold figure in a fresh process (startup_child.py).

`import` is from the start of the process until the backend's libraries are in, `load` reads the weights, `compile` is the
first request of all, the shortest there is; then come the first tokens of one context: `cold prompt`, `warm prefix` (in the
same process, another question), `second turn`. `prefix from disk` is the cold prompt of a further fresh process, where its
engine says that it took the prefix from somewhere; null where a backend keeps none. The context is fixed text, a file, a
workspace or a folder of skills.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nightschool.bench.l0_cost import kv_bytes
from nightschool.bench.loaded import WORDS, find
from nightschool.bench.result import Measure, Model, Record, record, this_machine
from nightschool.disk.errors import MachineProblem, Problem
from nightschool.disk.files import read_text

HELP = "what a context costs before its first token: import, load, compile, prefill; cold, warm, second turn"
LIMIT = 600
"""Seconds that one process may take."""
QUESTIONS = ("Who keeps the log?", "When is it rotated?", "And after that?")
PARTS = {
    "import": "import",
    "load": "load",
    "compile": "compile",
    "cold": "cold prompt",
    "to_first_token": "process to first token",
    "warm": "warm prefix",
    "second": "second turn",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`context` is a file, a workspace or a folder of skills (None: `tokens` tokens of fixed text)."""

    model: str | None = None
    backend: str | None = None
    models: str | None = None
    context: str | None = None
    tokens: int = 1000
    gen: int = 16
    repeats: int = 3


def measure(settings: Settings, tell: Callable[[str], None] = lambda line: None) -> Record:
    """Start the processes, one after the other: the first of them is not kept, for it fills the system's file cache."""
    machine, spec = this_machine(), find(settings.model, settings.backend, settings.models)
    runs: list[dict[str, Any]] = []
    for number in range(settings.repeats + 1):
        tell(f"process {number} of {settings.repeats}" if number else "warm-up process")
        system = context(settings, salt=f"Notes {number}. ")
        again = _child(settings, system, began=time.time())
        runs += [again] if number else []
    tell("the last context again, in a fresh process")
    disk = _child(settings, context(settings, salt=f"Notes {settings.repeats}. "), began=time.time())
    measures = [Measure(name, "s", tuple(run[key] for run in runs)) for key, name in PARTS.items()]
    kept = disk["cold_cached"] is not None and disk["cold_cached"] > (runs[-1]["cold_cached"] or 0)
    measures.append(
        Measure(
            "prefix from disk", "s", (disk["cold"],) if kept else (), note="" if kept else "this backend keeps none"
        )
    )
    for name in ("cold", "warm", "second"):
        for kind in ("tokens", "cached"):
            samples = tuple(float(told) for run in runs if (told := run[f"{name}_{kind}"]) is not None)
            measures.append(Measure(f"{PARTS[name]} {kind}", "tokens", samples, "neither"))
    size, tokens = kv_bytes(spec), runs[-1]["cold_tokens"]
    known = (float(size * tokens),) if size is not None and tokens is not None else ()
    measures.append(Measure("KV", "bytes", known))
    measures.append(Measure("peak memory", "bytes", tuple(float(run["memory"]) for run in runs)))
    model = Model(*runs[-1]["model"])
    notes = ["every process is fresh; the files of the model are in the system's cache"]
    return record("startup", measures, model=model, settings=asdict(settings), notes=notes, machine=machine)


def context(settings: Settings, salt: str = "") -> str:
    """The text that stands before every question; `salt` makes it one that no cache knows."""
    if settings.context is None:
        return salt + WORDS * max(settings.tokens // len(WORDS.split()), 1)
    path = Path(settings.context)
    if path.is_file():
        return salt + read_text(path)
    from nightschool.loop import skills
    from nightschool.loop.student import system_prompt
    from nightschool.loop.suite import load_suite

    if (path / "config.json").is_file():
        return salt + system_prompt(load_suite(path / "suite"), skills.load(path / "skills"))
    found = skills.load(path)
    if not found:
        raise Problem(f"{path} is no file, no workspace and no folder of skills", "give one of the three")
    return salt + found.prompt


def _child(settings: Settings, system: str, began: float) -> dict[str, Any]:
    wanted: Mapping[str, Any] = {
        **{key: getattr(settings, key) for key in ("model", "backend", "models", "gen")},
        "system": system,
        "questions": QUESTIONS,
        "began": began,
    }
    command = [sys.executable, "-m", "nightschool.bench.startup_child", json.dumps(wanted)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise MachineProblem(f"a fresh process had no token after {LIMIT} s", "try a smaller model") from None
    except subprocess.CalledProcessError as failed:
        last = (failed.stderr.strip() or "no word").splitlines()[-1]
        raise MachineProblem(f"the fresh process failed: {last}", "run `nightschool doctor`") from None
    return told
