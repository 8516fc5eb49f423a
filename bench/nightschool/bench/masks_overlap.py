"""Whether filling masks costs a step anything: the same replies once more, with the masks of the first time at hand.

A step that fills, and one that does not, both with a forward pass worth a known time; what a fill takes and the step does
not show is hidden behind the pass. Fills are also made slow on purpose, by a sleep, so that it shows on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any
from unittest import mock

from nightschool.bench import masks_ours, masks_peers
from nightschool.bench.masks_setting import Net
from nightschool.engine.chat import Chat
from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.types import Request
from nightschool.engine.vocabulary import Vocabulary

TRIAL = 40
"""Multiplications that tell how many make a pass of a given time."""


def overlap(
    chat: Chat, asked: Sequence[Request], prompts: Sequence[Sequence[int]], steps: int, forward: float, fill: float
) -> dict[str, float]:
    """Milliseconds of a step with a pass of about `forward` seconds, and fills of at least `fill`."""
    net = _net_worth(forward, chat.vocabulary, prompts, steps)
    kept: list[Any] = []
    with mock.patch.object(GrammarBatch, "fill", _kept(GrammarBatch.fill, kept, fill)):
        real = masks_ours.run(chat, net, asked, steps)
    replay = iter(kept)
    with (
        mock.patch.object(GrammarBatch, "fill", lambda batch, tickets, *, spell=False: next(replay)),
        mock.patch.object(GrammarBatch, "consume", lambda batch, tickets, tokens: None),
    ):
        canned = masks_ours.run(chat, net, asked, len(real.seconds) - 1)
    step, without = median(real.seconds), median(canned.seconds)
    masks = real.parts["fill"] + real.parts["consume"]
    found = {
        "forward": _forward(net, prompts, steps),
        "fill": masks,
        "step": step,
        "step_without_fill": without,
        "overlap": without + masks - step,
    }
    return {name: round(seconds * 1e3, 2) for name, seconds in found.items()} | {
        "hidden": round((without + masks - step) / masks, 2)
    }


def _net_worth(seconds: float, vocabulary: Vocabulary, prompts: Sequence[Sequence[int]], steps: int) -> Net:
    bare, busy = (_forward(Net(vocabulary, work), prompts, steps) for work in (0, TRIAL))
    return Net(vocabulary, max(0, round(TRIAL * (seconds - bare) / max(busy - bare, 1e-6))))


def _forward(net: Net, prompts: Sequence[Sequence[int]], steps: int) -> float:
    return median(masks_peers.run(net, prompts, steps, masks_peers.only_forward).seconds)


def _kept(fill: Callable[..., Any], kept: list[Any], least: float) -> Callable[..., Any]:
    """Fill masks, take at least so long, and keep them."""

    def slowly(batch: GrammarBatch, tickets: Sequence[int], *, spell: bool = False) -> Any:
        began = time.perf_counter()
        masks = fill(batch, tickets, spell=spell)
        kept.append(masks.copy())
        time.sleep(max(0.0, least - (time.perf_counter() - began)))
        return masks

    return slowly
