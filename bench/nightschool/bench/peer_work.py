"""The work that peers are given, and how a peer tells what came of it: `python peer_NAME.py JOB`, one JSON line on stdout.

A job file holds the model's folder, the task, the prompts as token ids, the most tokens of a reply, and the schemas, one
for each prompt. A peer answers {"seconds", "free_seconds", "compile", "tokens",
"valid"} or {"cannot": why}. This module knows no library, so that a peer's interpreter need hold none of ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """What to do; `schemas` is empty for free text."""

    folder: str
    task: str
    prompts: list[list[int]]
    warm: list[list[int]]
    gen: int
    schemas: list[str]
    limit: float


@dataclass
class Answer:
    """What came of it: seconds with compiling, those of free decoding of as many tokens, and of compiling alone."""

    seconds: float
    tokens: int
    free_seconds: float | None = None
    compile: float | None = None
    valid: float | None = None


class Cannot(Exception):
    """The peer has no way to do this task."""


def serve(work: Callable[[Job], Answer]) -> int:
    """Read the job, do it, print what came of it."""
    try:
        answer: dict[str, Any] = vars(work(Job(**json.loads(Path(sys.argv[1]).read_text("utf-8")))))
    except Cannot as reason:
        answer = {"cannot": str(reason)}
    except ImportError as missing:
        answer = {"cannot": f"not installed: {missing.name or missing}"}
    print(json.dumps(answer), flush=True)
    return 0


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def are_json(texts: list[str]) -> float:
    """The share of these texts that are JSON."""

    def good(text: str) -> bool:
        try:
            json.loads(text)
        except ValueError:
            return False
        return True

    return sum(map(good, texts)) / max(len(texts), 1)
