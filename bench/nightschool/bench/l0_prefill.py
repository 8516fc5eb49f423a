"""Seconds until the first token behind so much standing text, measured with one model on this machine.

Cold, each time behind other first words, so that nothing of it can be in the prefix cache; and cached, the same text again
before another question. A text that is longer than the model's context is timed all the same, with the limit raised, and a
note says so: the work is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nightschool.bench.result import Model
from nightschool.disk.errors import Problem
from nightschool.engine.models import ModelSpec

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.models import Models
    from nightschool.engine.types import Usage

Tell = Callable[[str], None]
ROOM = 64
"""Tokens beside the standing text: the question, and the words that make a prompt new."""
PATIENCE = 60.0
"""Seconds of cold prefill after which a text is not timed again."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """Seconds to the first token, a sample each time; prompt tokens as the engine counted them, and how many were cached."""

    cold: tuple[float, ...]
    cached: tuple[float, ...]
    tokens: int | None
    reused: int | None


@dataclass(frozen=True, slots=True)
class Timings:
    """Of each text its prefill, the model that took it, and what a reader should know; empty where none could be had."""

    model: Model | None
    texts: Mapping[str, Prefill]
    notes: tuple[str, ...]


def timings(
    models: Models,
    asked: str | None,
    backend: str | None,
    texts: Mapping[str, tuple[str, int]],
    repeats: int,
    tell: Tell,
) -> Timings:
    """Time named texts, each given with its tokens; `asked` is an alias that must be there (None: the student, if it is)."""
    from nightschool.engine import offline, select

    alias = asked or models.roles.student
    spec, choice = select.resolve(models, alias, backend)
    try:
        select.require(spec, choice.name)
    except Problem as problem:
        if asked:
            raise
        return Timings(None, {}, (f"no seconds: {problem.what}; {problem.advice}",))
    if not texts:
        return Timings(None, {}, ())
    offline.seal(models.hosts())
    tell(f"loading {alias} with {choice.name}")
    with _engine(room_for(spec, max(tokens for _, tokens in texts.values())), choice.name) as engine:
        warm_up(engine)
        found = {name: prefill(engine, text, repeats, tell) for name, (text, _) in texts.items()}
        dtype = str(engine.facts().get("dtype") or spec.dtype)
    long = [
        f"{name}: {tokens} tokens do not fit the context of {alias}, {spec.context}; timed with the limit raised"
        for name, (_, tokens) in texts.items()
        if tokens + ROOM > spec.context
    ]
    told = [
        f"{name}: timed with a prompt of {one.tokens} tokens; of the cached one {one.reused} were reused"
        for name, one in found.items()
    ]
    return Timings(Model(alias, spec.fingerprint, dtype, choice.name), found, (*long, *told))


@contextmanager
def _engine(spec: ModelSpec, backend: str) -> Iterator[Engine]:
    from nightschool.engine import select

    engine = select.open_engine(spec, backend=backend, width=1)
    try:
        yield engine
    finally:
        engine.close()


def room_for(spec: ModelSpec, tokens: int) -> ModelSpec:
    """The model with the text once, as it stands, in its prompt, and a context that holds so many tokens."""
    return replace(spec, template="plain", context=max(spec.context, tokens + ROOM))


def prefill(engine: Engine, text: str, repeats: int, tell: Callable[[str], None] = lambda _: None) -> Prefill:
    """Time the standing text as a system prompt; `tell` hears of each step. The caller has warmed the engine up."""
    cold, cached = [], []
    usage: Usage | None = None
    for number in range(repeats):
        tell(f"prefill, {number + 1} of {repeats}")
        opened = f"Session {time.time_ns()}.\n\n{text}"
        cold.append(_first_token(engine, opened, "Begin.")[0])
        seconds, usage = _first_token(engine, opened, "Go on.")
        cached.append(seconds)
        if sum(cold) > PATIENCE:
            break
    return Prefill(
        tuple(cold), tuple(cached), usage.prompt_tokens if usage else None, usage.cached_tokens if usage else None
    )


def warm_up(engine: Engine) -> None:
    """One short prompt, so that what is only done once is not timed."""
    _first_token(engine, "Be brief.", "Begin.")


def _first_token(engine: Engine, system: str, question: str) -> tuple[float, Usage]:
    from nightschool.engine.types import Message, Request, Sampling

    engine.submit(Request((Message("system", system), Message("user", question)), sampling=Sampling(max_tokens=1)))
    began = time.perf_counter()
    while not (done := engine.step()):
        pass
    return time.perf_counter() - began, done[0][1].usage
