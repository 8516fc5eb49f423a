"""What `mlx_ops` is made of: masks, the cut of top_k and top_p, and noise, each for the rows it is given.

Which rows need what is left to `mlx_ops`. Nothing here waits for the device.
"""

from __future__ import annotations

from functools import lru_cache

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nightschool.kernels.reference import GOLDEN, MIX_A, MIX_B, Floats, Rows, Words

Hashes = npt.NDArray[np.uint32]

NEVER = -float("inf")
BLOCK = 512
LARGEST = float(np.finfo(np.float32).max)
BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
CAPS_OF_BYTE = np.where(BITS_OF_BYTE, LARGEST, NEVER).astype(np.float32)
"""For each byte of a mask, the most that its eight logits may be."""

LANES, BLOCK = 128, 2048
"""Numbers that a maximum is taken of side by side, and those of a block."""


def on_cpu() -> bool:
    """Whether the default device is the CPU: it counts in float64, and NumPy's logarithms are several times faster."""
    return bool(mx.default_device().type == mx.DeviceType.cpu)


def clean(logits: mx.array) -> mx.array:
    """In float32; NaN counts as impossible."""
    raw = logits.astype(mx.float32)
    return mx.where(raw == raw, raw, NEVER)


def logsumexp(raw: mx.array) -> mx.array:
    """Of each row, in blocks: on a CPU MLX adds up one after the other, which over a vocabulary loses four digits."""
    batch, width = raw.shape
    blocks = mx.pad(raw, [(0, 0), (0, -width % BLOCK)], constant_values=NEVER).reshape(batch, -1, BLOCK)
    return mx.logsumexp(mx.logsumexp(blocks, axis=2), axis=1)


def column(values: npt.NDArray[np.float32] | npt.NDArray[np.int64]) -> mx.array:
    """One value a row, as (B, 1)."""
    return mx.array(values)[:, None]


def rows_at(rows: Rows, members: npt.NDArray[np.int64]) -> Rows:
    """The settings of some of the rows."""
    return Rows(*(getattr(rows, name)[members] for name in ("temperature", "top_k", "top_p", "seed", "position")))


def count_allowed(mask: Words) -> npt.NDArray[np.int64]:
    """How many bits of each row are set, padding included."""
    counts: npt.NDArray[np.int64] = np.bitwise_count(mask.view(np.uint32)).sum(1, dtype=np.int64)
    return counts


def allowed(mask: Words, vocab: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """The allowed ids of each row, ascending, and caps that shut the padding behind them."""
    row, word = np.nonzero(mask)
    bits = np.unpackbits(mask[row, word].astype("<i4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    pair, bit = np.nonzero(bits)
    row, token = row[pair], word[pair] * 32 + bit
    row, token = row[token < vocab], token[token < vocab]
    counts = np.bincount(row, minlength=len(mask))
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    tokens = np.zeros((len(mask), max(1, counts.max())), np.int32)
    shut = np.full(tokens.shape, NEVER, np.float32)
    tokens[row, place], shut[row, place] = token, LARGEST
    return tokens, shut


def caps(mask: Words) -> mx.array:
    """The most that each logit may be: -inf where the host's mask forbids it."""
    return mx.array(np.take(CAPS_OF_BYTE, mask.astype("<i4").view(np.uint8), axis=0).reshape(len(mask), -1))


def unpack(mask: mx.array, vocab: int) -> mx.array:
    """The device's mask as booleans (B, vocab)."""
    bits = (mask.view(mx.uint32)[:, :, None] >> mx.arange(32, dtype=mx.uint32)) & 1
    return bits.reshape(mask.shape[0], -1)[:, :vocab].astype(mx.bool_)


def keep_top(scores: mx.array, rows: Rows) -> mx.array:
    """The top_k highest, then the fewest of them whose share reaches top_p; all others become -inf.

    Sorted are only as many as the largest top_k, or all where a row has none. Greedy rows stay as they are.
    """
    width = scores.shape[1]
    top_k = np.where((rows.top_k > 0) & (rows.temperature > 0), np.minimum(rows.top_k, width), width)
    most = int(top_k.max())
    head = mx.sort(scores if most == width else mx.topk(scores, most, axis=1), axis=1)[:, ::-1]
    real = mx.float64 if on_cpu() else mx.float32
    ranked = mx.arange(most)[None] < column(top_k)
    weights = mx.where(ranked, mx.exp((head - head[:, :1]).astype(real)), 0)
    share = np.where((rows.top_p < 1) & (rows.temperature > 0), rows.top_p, np.float32(np.inf))
    wanted = column(share).astype(real) * weights.sum(axis=1, keepdims=True)
    before = mx.cumsum(weights, axis=1) - weights
    count = mx.maximum((ranked & (before < wanted)).sum(axis=1, keepdims=True), 1)
    cut = mx.take_along_axis(head, count - 1, 1)
    above, equal = scores > cut, scores == cut
    room = count - above.sum(axis=1, keepdims=True)
    return mx.where(above | (equal & (mx.cumsum(equal.astype(mx.int32), axis=1) <= room)), scores, NEVER)


def first_best(scores: mx.array) -> mx.array:
    """The lowest id that reaches each row's maximum: block by block on a CPU, where MLX is slow along a row."""
    batch, width = scores.shape
    whole = width // BLOCK
    if whole < 2 or not on_cpu():
        return mx.argmax(scores, axis=1).astype(mx.int32)
    best = scores[:, : whole * BLOCK].reshape(batch, whole, -1, LANES).max(axis=2).max(axis=2)
    if width % BLOCK:
        best = mx.concatenate([best, scores[:, whole * BLOCK :].max(axis=1, keepdims=True)], axis=1)
    start = mx.minimum(mx.argmax(best, axis=1).astype(mx.int32) * BLOCK, width - BLOCK)[:, None]
    window = mx.take_along_axis(scores, start + mx.arange(BLOCK, dtype=mx.int32)[None], 1)
    return start[:, 0] + mx.argmax(window, axis=1).astype(mx.int32)


def gumbel(rows: Rows, tokens: mx.array) -> mx.array:
    """Gumbel noise for the ids in `tokens`, (B, K) or (1, K): the hash of (seed, position, token id) of `reference`."""
    start = mx.array(starts(rows))[:, None]
    bits = _mix(start ^ (tokens.astype(mx.uint32) * mx.array(GOLDEN, mx.uint32)))
    uniform = ((bits >> 9).astype(mx.float32) + 0.5) * 2**-23
    return -mx.log(-mx.log(uniform))


def noise_from_host(rows: Rows, vocab: int) -> mx.array:
    """Gumbel noise for every token, by NumPy, row by row in place."""
    noise = np.empty((len(rows.seed), vocab), np.float32)
    bits, spare = np.empty((2, vocab), np.uint32)
    for start, row in zip(starts(rows), noise, strict=True):
        np.bitwise_xor(_golden(vocab), start, out=bits)
        _mix_in_place(bits, spare)
        np.right_shift(bits, np.uint32(9), out=bits)
        row[:] = bits
        row += np.float32(0.5)
        row *= np.float32(2**-23)
        for _ in range(2):
            np.log(row, out=row)
            np.negative(row, out=row)
    return mx.array(noise)


@lru_cache(maxsize=2)
def _golden(vocab: int) -> Hashes:
    return np.arange(vocab, dtype=np.uint32) * np.uint32(GOLDEN)


def starts(rows: Rows) -> Hashes:
    """The hash of each row's seed and position, where that of its tokens begins."""
    start, spare = rows.seed.copy(), np.empty_like(rows.seed)
    _mix_in_place(start, spare)
    start ^= rows.position
    _mix_in_place(start, spare)
    return start


def _mix_in_place(h: Hashes, spare: Hashes) -> None:
    """`reference.mix` without new arrays: that is most of its time."""
    for shift, factor in ((16, MIX_A), (13, MIX_B), (16, 1)):
        np.right_shift(h, np.uint32(shift), out=spare)
        h ^= spare
        if factor != 1:
            h *= np.uint32(factor)


def _mix(h: mx.array) -> mx.array:
    """`reference.mix` on the device; arithmetic wraps."""
    h = (h ^ (h >> 16)) * mx.array(MIX_A, mx.uint32)
    h = (h ^ (h >> 13)) * mx.array(MIX_B, mx.uint32)
    return h ^ (h >> 16)
