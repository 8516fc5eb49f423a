"""From logits to token ids: the specification, in NumPy, that every other kernel is tested against.

Masks are packed as llguidance, xgrammar and vLLM pack them: int32 words of shape (B, ceil(V / 32)), bit j of
word w stands for token 32 * w + j, 1 means allowed. `V` is the model's padded vocabulary; ids at or above
`vocab`, the size of the tokenizer, are never chosen, with a mask or without.

The noise of a token is a hash of (seed, position, token id), so what a row draws does not depend on its batch
mates. Speed is not a goal here: rows are handled one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.int32]

GOLDEN, MIX_A, MIX_B = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35
NOTHING = -1
"""The id of a row without a single token to choose: an error for the caller, never an end of text."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How each row of a batch is drawn: temperature 0 is greedy, top_k 0 and top_p 1 are off."""

    temperature: Floats
    top_k: npt.NDArray[np.int32]
    top_p: Floats
    seed: npt.NDArray[np.uint32]
    position: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, rows: Sequence[tuple[float, int, float, int, int]]) -> Self:
        """One (temperature, top_k, top_p, seed, position) per row."""
        temperature, top_k, top_p, seed, position = list(zip(*rows, strict=True)) or [()] * 5
        return cls(
            np.array(temperature, np.float32),
            np.array(top_k, np.int32),
            np.array(top_p, np.float32),
            np.array(seed, np.uint32),
            np.array(position, np.uint32),
        )

    @property
    def greedy(self) -> bool:
        """No row needs noise."""
        return not self.temperature.any()


@dataclass(frozen=True, slots=True)
class Sampled:
    """The chosen ids (NOTHING where none is left) and their log probabilities before mask and temperature."""

    ids: npt.NDArray[np.int64]
    logprobs: Floats


def check(shape: Sequence[int], mask_shape: Sequence[int] | None, vocab: int) -> None:
    """Refuse a mask that does not cover the logits: a narrow one would leave the rest open."""
    batch, width = shape
    if not 0 < vocab <= width:
        raise ValueError(f"vocab must be between 1 and the width of the logits, {width}, not {vocab}")
    expected = (batch, -(-width // 32))
    if mask_shape is not None and tuple(mask_shape) != expected:
        raise ValueError(f"a mask for logits {tuple(shape)} has shape {expected}, not {tuple(mask_shape)}")


def sample(logits: npt.NDArray[Any], mask: Words | None, rows: Rows, vocab: int) -> Sampled:
    """Choose one token for each row of `logits` (B, V) among those that `mask` allows; ties: lowest id."""
    check(logits.shape, None if mask is None else mask.shape, vocab)
    ids = np.full(len(logits), NOTHING, np.int64)
    logprobs = np.full(len(logits), -np.inf, np.float32)
    for i in range(len(logits)):
        raw = clean(logits[i, :vocab])
        allowed = raw if mask is None else np.where(unpack(mask[i], vocab), raw, np.float32(-np.inf))
        if np.isneginf(allowed).all():
            continue
        if rows.temperature[i] > 0:
            allowed = allowed / rows.temperature[i]
            allowed = keep_top(allowed, int(rows.top_k[i]), float(rows.top_p[i]))
            allowed = allowed + gumbel(int(rows.seed[i]), int(rows.position[i]), vocab)
        ids[i] = np.argmax(allowed)
        logprobs[i] = raw[ids[i]] - logsumexp(raw)
    return Sampled(ids, logprobs)


def clean(logits: npt.NDArray[Any]) -> Floats:
    """In float32; NaN counts as impossible, +inf as the largest number."""
    raw: Floats = logits.astype(np.float32)
    raw[np.isnan(raw)] = -np.inf
    return np.minimum(raw, np.finfo(np.float32).max)


def unpack(words: Words, vocab: int) -> npt.NDArray[np.bool_]:
    """The bits of one row's mask."""
    tokens = np.arange(vocab)
    return ((words[tokens // 32] >> (tokens % 32)) & 1).astype(bool)


def keep_top(scores: Floats, top_k: int, top_p: float) -> Floats:
    """The top_k highest, then the fewest of them whose share reaches top_p; all others become -inf."""
    order = np.argsort(-scores, kind="stable")
    kept = order[:top_k] if top_k > 0 else order
    if top_p < 1:
        weights = np.exp((scores[kept] - scores[kept[0]]).astype(np.float64))
        before = np.cumsum(weights) - weights
        kept = kept[: max(1, int((before < top_p * weights.sum()).sum()))]
    only = np.full_like(scores, -np.inf)
    only[kept] = scores[kept]
    return only


def gumbel(seed: int, position: int, vocab: int) -> Floats:
    """Gumbel noise for every token: -log(-log(u)), u on a grid of 2**23 points strictly between 0 and 1."""
    row = mix(mix(np.array([seed], np.uint32)) ^ np.uint32(position))
    bits = mix(row ^ (np.arange(vocab, dtype=np.uint32) * np.uint32(GOLDEN)))
    uniform = ((bits >> np.uint32(9)).astype(np.float32) + np.float32(0.5)) * np.float32(2**-23)
    noise: Floats = -np.log(-np.log(uniform))
    return noise


def mix(h: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The 32-bit finaliser of MurmurHash3; arithmetic wraps."""
    h = (h ^ (h >> np.uint32(16))) * np.uint32(MIX_A)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(MIX_B)
    return h ^ (h >> np.uint32(16))


def logsumexp(row: Floats) -> np.float32:
    """Log of the sum of exponentials, safe for large numbers."""
    top = row.max()
    return np.float32(top + np.log(np.exp(row - top).sum(dtype=np.float64)))
