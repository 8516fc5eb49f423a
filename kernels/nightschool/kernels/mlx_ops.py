"""The kernel in plain MLX operations, for any MLX device; the same ids as `reference`.

`draw` builds a graph and never waits for it, so an engine can queue the next step behind it; `sample` waits.
What masks and row settings say on the host decides how a row is computed, for its logits are not known yet: a row
whose mask allows few tokens is gathered to those, a greedy row costs an argmax, and only a row with top_p and
without top_k is sorted in full. The pieces are in `mlx_parts.py`; `metal.py` does most of this in one dispatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nightschool.kernels import mlx_parts as parts
from nightschool.kernels.mlx_parts import LARGEST, NEVER
from nightschool.kernels.reference import NOTHING, Rows, Sampled, Words, check

Ints = npt.NDArray[np.int64]

FEW = 1024
"""A host mask that allows at most this many tokens is worth a gather."""


def sample(logits: mx.array, mask: Words | mx.array | None, rows: Rows, vocab: int) -> Sampled:
    """Choose one token for each row of `logits` (B, V) among those that `mask` allows; ties: lowest id."""
    return evaluated(*draw(logits, mask, rows, vocab))


def evaluated(ids: mx.array, logprobs: mx.array) -> Sampled:
    """What `draw` describes, once it is computed."""
    mx.eval(ids, logprobs)
    return Sampled(np.array(ids).astype(np.int64), np.array(logprobs))


def draw(
    logits: mx.array, mask: Words | mx.array | None, rows: Rows, vocab: int, *, normalised: bool = False
) -> tuple[mx.array, mx.array]:
    """`sample` as a graph: ids (int32) and log probabilities, neither evaluated.

    `normalised` vouches that the logits are log probabilities, which saves the passes that make them so: no value
    of a row is above zero, and either none is NaN or all are, which gives NOTHING.
    """
    check(logits.shape, None if mask is None else mask.shape, vocab)
    groups = list(_groups(mask, rows))
    picked = [_pick(logits, mask, rows, vocab, *group, normalised) for group in groups]
    ids, best = (mx.concatenate(list(pieces)) if len(groups) > 1 else pieces[0] for pieces in zip(*picked, strict=True))
    if len(groups) > 1:
        back = mx.array(np.argsort(np.concatenate([members for members, _ in groups])))
        ids, best = ids[back], best[back]
    alive = best > NEVER
    return mx.where(alive, ids, NOTHING), mx.where(alive, _logprobs(logits, ids, vocab, normalised), NEVER)


def _logprobs(logits: mx.array, ids: mx.array, vocab: int, normalised: bool) -> mx.array:
    """Log probabilities before mask and temperature."""
    chosen = mx.take_along_axis(logits, ids[:, None], 1)[:, 0].astype(mx.float32)
    if normalised:
        return chosen
    # +inf counts as the largest number: a sum that holds one is that number, for all others vanish beside it.
    return mx.minimum(chosen, LARGEST) - mx.minimum(parts.logsumexp(parts.clean(logits[:, :vocab])), LARGEST)


def _groups(mask: Words | mx.array | None, rows: Rows) -> Iterator[tuple[Ints, str]]:
    """The rows that are computed alike, and how."""
    drawn, limited, nucleus = rows.temperature > 0, rows.top_k > 0, rows.top_p < 1
    few = parts.count_allowed(mask) <= FEW if isinstance(mask, np.ndarray) else np.zeros(len(drawn), bool)
    kinds = {
        "few": few,
        "greedy": ~few & ~drawn,
        "plain": ~few & drawn & ~limited & ~nucleus,
        "limited": ~few & drawn & limited,
        "nucleus": ~few & drawn & ~limited & nucleus,
    }
    for kind, members in kinds.items():
        if members.any():
            yield np.flatnonzero(members), kind


def _pick(
    logits: mx.array, mask: Any, rows: Rows, vocab: int, members: Ints, kind: str, normalised: bool
) -> tuple[mx.array, mx.array]:
    """The id that each row of a group chooses, and the score it won with: -inf or NaN where none is left."""
    rows = parts.rows_at(rows, members)
    if kind == "few":
        return _pick_among_few(logits, mask[members], rows, vocab, members)
    if len(members) < logits.shape[0]:
        logits = logits[mx.array(members)]
        mask = mask if mask is None else mask[members if isinstance(mask, np.ndarray) else mx.array(members)]
    scores = _masked(logits[:, :vocab], mask, vocab, normalised)
    if kind != "greedy":
        scores = scores / parts.column(rows.temperature)
        scores = scores if kind == "plain" else parts.keep_top(scores, rows)
        whole = parts.noise_from_host(rows, vocab) if parts.on_cpu() else parts.gumbel(rows, mx.arange(vocab)[None])
        scores = scores + whole
    ids = parts.first_best(scores)
    return ids, mx.take_along_axis(scores, ids[:, None], 1)[:, 0]


def _masked(logits: mx.array, mask: Words | mx.array | None, vocab: int, normalised: bool) -> mx.array:
    """Scores in float32, -inf where the mask forbids."""
    scores = logits.astype(mx.float32) if normalised else parts.clean(logits)
    if isinstance(mask, np.ndarray):
        return mx.minimum(scores, parts.caps(mask)[:, :vocab])
    scores = scores if normalised else mx.minimum(scores, LARGEST)
    return scores if mask is None else mx.where(parts.unpack(mask, vocab), scores, NEVER)


def _pick_among_few(logits: mx.array, mask: Words, rows: Rows, vocab: int, members: Ints) -> tuple[mx.array, mx.array]:
    """The same, on the few tokens that the mask allows."""
    allowed, caps = parts.allowed(mask, vocab)
    tokens = mx.array(allowed)
    scores = mx.minimum(parts.clean(logits[mx.array(members)[:, None], tokens]), mx.array(caps))
    drawn = rows.temperature > 0
    if drawn.any():
        scores = scores / parts.column(np.where(drawn, rows.temperature, np.float32(1)))
        if (drawn & ((rows.top_k > 0) | (rows.top_p < 1))).any():
            scores = parts.keep_top(scores, rows)
        scores = scores + parts.gumbel(rows, tokens) * parts.column(drawn.astype(np.float32))
    place = mx.argmax(scores, axis=1)[:, None]
    return mx.take_along_axis(tokens, place, 1)[:, 0], mx.take_along_axis(scores, place, 1)[:, 0]
