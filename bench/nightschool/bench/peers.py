"""Our engine beside others, each in an interpreter of its own, one after the other and by turns, on one model and prompts.

Tasks: `free` text, `shared` (free text after a long beginning that all prompts share), `schema` (one for the batch) and
`schemas` (a different one for each row). A peer is a script `peer_NAME.py`, given the same token ids; one that is not
installed, cannot do a task, or has not ended in time is a figure without samples, whose note says why. `above free` are the
seconds beyond free decoding of as many tokens, compiling included. Ratios are peer / ours in seconds of the same turn: more
is better for us.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightschool.bench.loaded import WORDS, find
from nightschool.bench.result import Measure, Model, Record, Value, record, this_machine

if TYPE_CHECKING:
    from nightschool.engine.types import Message

HELP = "our engine beside transformers, outlines, mlx-lm, vLLM and llama.cpp, by turns"
HERE = Path(__file__).parent
OURS = "ours"
SHAPES = (
    ("edits", "op", "log"),
    ("changes", "action", "summary"),
    ("patches", "kind", "reason"),
    ("steps", "verb", "note"),
)
VERBS = ("replace", "append", "insert_after", "no_action", "merge", "split", "rename", "cite")


@dataclass(frozen=True, slots=True)
class Settings:
    """Peers and tasks with commas; `pythons` gives a peer's interpreter, as NAME=PATH; `limit` is seconds for one process,
    `compile_limit` for what a grammar may take to compile."""

    model: str | None = None
    backend: str | None = "transformers"
    models: str | None = None
    peers: str = "generate,outlines,mlx_lm,vllm,llama_cpp"
    tasks: str = "free,shared,schema,schemas"
    pythons: str = ""
    batch: int = 32
    gen: int = 32
    shared: int = 1000
    repeats: int = 3
    limit: float = 900
    compile_limit: float = 60


@dataclass(slots=True)
class Told:
    """What one side told of one task, turn by turn; `why` it could not."""

    answers: list[Mapping[str, Any]] = field(default_factory=list)
    why: str = ""


def measure(settings: Settings, tell: Callable[[str], None] = lambda line: None) -> Record:
    """Every task, all sides by turns."""
    machine, spec = this_machine(), find(settings.model, settings.backend, settings.models)
    sides = [OURS, *(name for name in settings.peers.split(",") if name)]
    pythons = dict(item.split("=", 1) for item in settings.pythons.split(",") if item)
    measures: list[Measure] = []
    with tempfile.TemporaryDirectory(prefix="nightschool-peers-") as name:
        for task in settings.tasks.split(","):
            told = {side: Told() for side in sides}
            job = _job(settings, spec, task, Path(name))
            for turn in range(settings.repeats):
                for side in sides[:: 1 if turn % 2 == 0 else -1]:
                    if not told[side].why:
                        tell(f"{task}: {side}, turn {turn + 1} of {settings.repeats}")
                        _turn(side, pythons.get(side, sys.executable), job, settings.limit, told[side])
            measures += _figures(task, told, settings.batch)
    model = Model(spec.alias, spec.fingerprint, "float32", settings.backend)
    notes = ["every turn is a fresh process; loading and a warm-up batch are not in its time"]
    return record("peers", measures, model=model, settings=asdict(settings), notes=notes, machine=machine)


def schema(number: int) -> str:
    """A small schema; no two of different numbers are alike."""
    items, verb, text = SHAPES[number % len(SHAPES)]
    entry = {
        "type": "object",
        "properties": {
            verb: {"enum": list(VERBS[: 2 + number % 7])},
            "where": {"type": "string", "minLength": 4, "maxLength": 8 + number},
        },
        "required": [verb, "where"],
        "additionalProperties": False,
    }
    return json.dumps(
        {
            "type": "object",
            "properties": {
                items: {"type": "array", "items": entry, "minItems": 1, "maxItems": 2},
                text: {"type": "string", "minLength": 8, "maxLength": 16},
            },
            "required": [items, text],
            "additionalProperties": False,
        }
    )


def _job(settings: Settings, spec: Any, task: str, folder: Path) -> list[str]:
    """The files of one task: the job, and the messages that it was made of, for our own side."""
    from nightschool.engine.chat import Chat
    from nightschool.engine.types import Message

    chat = Chat(spec)

    def turns(salt: str) -> list[tuple[Message, ...]]:
        head = f"{salt}. You answer the team. " + (WORDS * (settings.shared // 17) if task == "shared" else "")
        asked = [f"{salt}, question {row}: what became of build {row * 7}?" for row in range(settings.batch)]
        return [(Message("system", head), Message("user", text)) for text in asked]

    mine, others = turns("Notes"), turns("Other")
    schemas = {"schema": [schema(0)] * settings.batch, "schemas": [schema(row) for row in range(settings.batch)]}
    job = {
        "folder": str(spec.folder),
        "task": task,
        "prompts": [chat.encode(one).ids for one in mine],
        "warm": [chat.encode((Message("user", f"warm {row}"),)).ids for row in range(2)],
        "gen": settings.gen if task in ("free", "shared") else 256,
        "schemas": schemas.get(task, []),
        "limit": settings.compile_limit,
    }
    given = {
        **{key: getattr(settings, key) for key in ("model", "backend", "models")},
        "messages": [[[turn.role, turn.content] for turn in one] for one in mine],
        "others": [[[turn.role, turn.content] for turn in one] for one in others],
    }
    paths = [folder / f"{task}.json", folder / f"{task}-messages.json"]
    for path, content in zip(paths, (job, given), strict=True):
        path.write_text(json.dumps(content), "utf-8")
    return [str(path) for path in paths]


def _turn(side: str, python: str, files: Sequence[str], limit: float, told: Told) -> None:
    """One process of one side."""
    if side == "llama_cpp":
        found = shutil.which("llama-batched-bench")
        told.why = "needs the model as GGUF, which is not here" if found else "not installed: llama-batched-bench"
        return
    script = HERE / f"peer_{side}.py"
    if not script.is_file():
        told.why = f"there is no peer {side}"
        return
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if side != OURS:
        environment.pop("PYTHONPATH", None)
    command = [python, str(script), *files[: 2 if side == OURS else 1]]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        told.why = f"cut after {limit:g} s"
        return
    except OSError as error:
        told.why = f"{python}: {error.strerror}"
        return
    if ran.returncode == -signal.SIGALRM:
        told.why = "a compile was cut at the limit"
        return
    try:
        answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        told.why = "failed: " + (ran.stderr.strip() or "no word").splitlines()[-1][:200]
        return
    told.why = str(answer.get("cannot", ""))
    told.answers += [] if told.why else [answer]


def _figures(task: str, told: Mapping[str, Told], batch: int) -> Iterator[Measure]:
    for side, one in told.items():
        params: Mapping[str, Value] = {"task": task, "side": side, "batch": batch}
        yield Measure("seconds", "s", _of(one, "seconds"), "lower", params, one.why)
        rates = tuple(answer["tokens"] / answer["seconds"] for answer in one.answers)
        yield Measure("rate", "tokens/s", rates, "higher", params, one.why)
        if task.startswith("schema"):
            yield Measure("above free", "s", _above(one), "lower", params, one.why)
            yield Measure("compile", "s", _of(one, "compile"), "lower", params, one.why)
            yield Measure("valid", "share", _of(one, "valid"), "higher", params, one.why)
        if side != OURS:
            yield _against(told[OURS], one, "seconds", _of, params)
            if task == "schema":
                yield _against(told[OURS], one, "above free", lambda side, _: _above(side), params)


def _of(one: Told, key: str) -> tuple[float, ...]:
    return tuple(answer[key] for answer in one.answers if answer[key] is not None)


def _above(one: Told) -> tuple[float, ...]:
    return tuple(
        answer["seconds"] - answer["free_seconds"] for answer in one.answers if answer["free_seconds"] is not None
    )


def _against(
    mine: Told, other: Told, name: str, read: Callable[[Told, str], tuple[float, ...]], params: Mapping[str, Value]
) -> Measure:
    """The ratio of a peer's seconds to ours, turn by turn; none where either is not above nothing (noise, not speed)."""
    pairs = zip(read(mine, name), read(other, name), strict=False)
    ratios = tuple(theirs / ours for ours, theirs in pairs if ours > 0 and theirs > 0)
    return Measure(f"{name}, peer / ours", "ratio", ratios, "higher", params, other.why)
