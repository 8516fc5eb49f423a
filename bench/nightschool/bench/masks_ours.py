"""Our side of `bench masks`: the MLX engine itself on a network that costs little, and where its time goes.

The parts are timed from outside, by clocks around the functions that do them; a part's time is its own, without that of
the parts within it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from unittest import mock

import mlx.core as mx
import numpy as np

from nightschool.bench.masks_setting import Net
from nightschool.engine.backends import mlx_engine, mlx_sampler
from nightschool.engine.backends.mlx_engine import MLXEngine
from nightschool.engine.backends.mlx_model import Cost
from nightschool.engine.chat import Chat
from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.types import Completion, Request
from nightschool.kernels.choose import choose

PARTS = ("consume", "fill", "graph", "dispatch", "wait", "sampler", "rest")
"""Of a step: `graph` describes the draw, `wait` is for the device, `sampler` and `rest` are Python around all others."""
OPEN = 1024
"""A row whose mask allows more tokens is inside a text."""


class Weightless:
    """Stands where the engine expects a model's weights."""

    alias, kind, dtype, cost = "bench", "plain", "float32", Cost(1, 1)

    def __init__(self, net: Net, width: int) -> None:
        """`width` is the padded vocabulary."""
        self.net, self.width = net, width

    def caches(self) -> list[Any]:
        """Empty ones."""
        return self.net.make_cache()

    def read(self, tokens: list[int], caches: list[Any], chunk: int) -> None:
        """Nothing is remembered of a prompt."""

    def release(self) -> None:
        """Nothing to free."""


@dataclass(slots=True)
class Clock:
    """Seconds and calls of parts that may lie within one another, and the mask and rows of the latest draw."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)
    mask: Any = None
    rows: int = 0
    _within: list[float] = field(default_factory=list)

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*args: Any, **named: Any) -> Any:
            self._within.append(0.0)
            began = time.perf_counter()
            try:
                return function(*args, **named)
            finally:
                spent = time.perf_counter() - began
                self.seconds[part] += spent - self._within.pop()
                self.calls[part] += 1
                if self._within:
                    self._within[-1] += spent

        return timed

    def choose(self, device: str) -> tuple[Callable[..., Any], str]:
        """As `kernels.choose`, the kernel timed."""
        draw, reason = choose(device)
        timed = self.around("graph", draw)

        def counted(logits: mx.array, mask: Any, *rest: Any, **named: Any) -> Any:
            self.rows, self.mask = logits.shape[0], mask
            return timed(logits, mask, *rest, **named)

        return counted, reason


@contextmanager
def clocked() -> Iterator[Clock]:
    """Clocks around the parts of our step, for engines that are made within."""
    clock = Clock()
    places: list[tuple[Any, str, str]] = [
        (GrammarBatch, "consume", "consume"),
        (GrammarBatch, "fill", "fill"),
        (mx, "async_eval", "dispatch"),
        (mx, "eval", "wait"),
        (mlx_sampler._Drawn, "at", "wait"),
        (mlx_sampler.SharedSampler, "__call__", "sampler"),
        (MLXEngine, "step", "rest"),
    ]
    with ExitStack() as stack:
        for owner, name, part in places:
            stack.enter_context(mock.patch.object(owner, name, clock.around(part, getattr(owner, name))))
        stack.enter_context(mock.patch.object(mlx_engine, "choose", clock.choose))
        yield clock


@dataclass(slots=True)
class Ours:
    """What came of a run: the steps in which every row was decoded, and the replies that ended."""

    seconds: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    """Medians over those steps."""
    open: float = 0.0
    """The share of rows that were inside a text; see OPEN."""
    sampler_calls: int = 0
    """The most in one step."""
    replies: dict[int, Completion] = field(default_factory=dict)


def run(chat: Chat, net: Net, asked: Sequence[Request], steps: int, to_the_end: bool = False) -> Ours:
    """Decode until every row was in `steps` steps, or one has ended; then the replies to their ends, if wanted."""
    with clocked() as clock:
        weightless: Any = Weightless(net, chat.vocabulary.size)
        engine = MLXEngine(chat, weightless, len(asked))
        tickets = [engine.submit(request) for request in asked]
        came = _measured(engine, clock, len(asked), steps)
    while to_the_end and len(came.replies) < len(tickets):
        came.replies.update(engine.step())
    engine.close()
    return came


def _measured(engine: MLXEngine, clock: Clock, rows: int, steps: int) -> Ours:
    """The steps in which all rows were decoded; the first of them, which is still warming up, does not count."""
    came, masks = Ours(), list[Any]()
    parts: dict[str, list[float]] = {part: [] for part in PARTS}
    warm = False
    while len(came.seconds) < steps and not came.replies:
        before, calls, began = dict(clock.seconds), clock.calls["sampler"], time.perf_counter()
        came.replies.update(engine.step())
        spent, calls = time.perf_counter() - began, clock.calls["sampler"] - calls
        full = clock.rows == rows and calls > 0 and not came.replies
        if full and warm:
            came.seconds.append(spent)
            came.sampler_calls = max(came.sampler_calls, calls)
            masks.append(clock.mask)
            for part, each in parts.items():
                each.append(clock.seconds[part] - before.get(part, 0.0))
        warm = full
    came.parts = {part: median(each) for part, each in parts.items()}
    came.open = _share_open(masks)
    return came


def _share_open(masks: Sequence[Any]) -> float:
    """Of all rows of all steps."""
    counts = [np.bitwise_count(mask.view(np.uint32)).sum(1, dtype=np.int64) > OPEN for mask in masks]
    return round(float(np.mean(counts)), 2)
