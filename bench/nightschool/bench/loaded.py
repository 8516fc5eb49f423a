"""A loaded model under a bench: opening it, prompts of a given length, and batches run to their ends.

Prompts are fixed words, told apart by their first one, so that nothing of them is cached. An engine ends free text where the
model does, and no bench reaches into it: replies are asked for at a length, and the tokens that came are counted.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.bench.result import Model

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.models import ModelSpec
    from nightschool.engine.types import Completion, Message, Request

WORDS = "the build host keeps every nightly log for the release team and rotates them after the long review of "
CHARS = 4
"""Characters of a token, about; a grammar asks for a text of this many for each."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A batch: seconds on the clock until all replies, and until the last first token."""

    seconds: float
    first: float
    replies: tuple[Completion, ...]

    @property
    def computed(self) -> int:
        """Prompt tokens that were read, not found in a cache."""
        return sum((one.usage.prompt_tokens or 0) - (one.usage.cached_tokens or 0) for one in self.replies)

    @property
    def generated(self) -> int:
        """Tokens that were generated, as the engine counted them."""
        return sum(one.usage.generated_tokens or 0 for one in self.replies)

    @property
    def early(self) -> int:
        """Replies that ended by themselves although free."""
        return sum(one.finish == "stop" for one in self.replies)


def find(alias: str | None, backend: str | None, models: str | None) -> ModelSpec:
    """The model (None: the student) as its backend sees it; the process is sealed."""
    from nightschool.engine import offline, select
    from nightschool.engine.models import load_models

    known = load_models(Path(models) if models else None, Path.cwd())
    offline.seal(known.hosts())
    return select.resolve(known, alias or known.roles.student, backend)[0]


@contextmanager
def opened(spec: ModelSpec, backend: str | None, width: int | None = None) -> Iterator[tuple[Engine, Model]]:
    """The loaded model, and what a record says of it; it is closed after the block."""
    from nightschool.engine import select

    engine = select.open_engine(spec, backend=backend, width=width)
    try:
        facts = engine.facts()
        dtype, by = str(facts.get("dtype", spec.dtype)), str(facts.get("backend", spec.backend))
        yield engine, Model(spec.alias, spec.fingerprint, dtype, by)
    finally:
        engine.close()


def prompt(engine: Engine, tokens: int, salt: str, system: str | None = None) -> tuple[Message, ...]:
    """A conversation that takes at most `tokens` tokens, as near as whole words come; `salt` is its first word."""
    from nightschool.engine.types import Message

    head = (Message("system", salt if system is None else system),)
    words = [salt, *(WORDS * (tokens // 8 + 2)).split()]

    def made(number: int) -> tuple[Message, ...]:
        return (*head, Message("user", " ".join(words[:number])))

    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if engine.count(made(middle)) <= tokens else (low, middle - 1)
    return made(low)


def text_grammar(tokens: int) -> Grammar:
    """A line of text of about so many tokens; it cannot end sooner."""
    from nightschool.engine.grammar import Grammar

    return Grammar.regex(f"[a-z ,.]{{{max(tokens * CHARS, 1)}}}")


def ask(messages: tuple[Message, ...], tokens: int, grammar: Grammar | None = None) -> Request:
    """A greedy reply of `tokens` tokens, or of the grammar."""
    from nightschool.engine.types import Request, Sampling

    return Request(messages, grammar, Sampling(max_tokens=tokens if grammar is None else grammar.limit))


def run(engine: Engine, requests: Sequence[Request]) -> Ran:
    """All of them at once; backends hand out a reply only when it is whole, so nothing is left to synchronise."""
    start = time.perf_counter()
    tickets = [engine.submit(request) for request in requests]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    seconds = time.perf_counter() - start
    replies = tuple(done[ticket] for ticket in tickets)
    return Ran(seconds, max((one.first_token_seconds for one in replies), default=0.0), replies)


def peak_memory() -> int:
    """Bytes that this process, and the accelerator for it, have taken at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    torch, mlx = sys.modules.get("torch"), sys.modules.get("mlx.core")
    if torch is not None and torch.cuda.is_available():
        peak = max(peak, int(torch.cuda.max_memory_allocated()))
    if mlx is not None and hasattr(mlx, "get_peak_memory"):
        peak = max(peak, int(mlx.get_peak_memory()))
    return peak


def watts() -> float | None:
    """What the machine draws now; None where it does not tell."""
    from nightschool.engine.device import this_device

    return this_device().power.watts
