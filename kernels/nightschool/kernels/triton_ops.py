"""The kernel on CUDA, in Triton: mask, temperature, noise, argmax and log probability in one reading of the logits.

`_scan` takes a block of a row each and leaves its best token and its sum of exponentials, `_join` makes one answer a
row of them. Rows with top_k or top_p first have their mask narrowed to the tokens that `torch_ops.keep_top` leaves,
which needs an order over the row. Under TRITON_INTERPRET=1 all of it runs on the CPU, slowly: for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from nightschool.kernels import reference, torch_ops
from nightschool.kernels.reference import NOTHING, Rows, Sampled, Words, check

BLOCK, WARPS = 2048, 8
"""Tokens that one program looks at, and its warps: 8 tokens a thread, for their logarithms are unrolled."""
GOLDEN = tl.constexpr(reference.GOLDEN)
MIX_A = tl.constexpr(reference.MIX_A)
MIX_B = tl.constexpr(reference.MIX_B)
NO_TOKEN = tl.constexpr(2**31 - 1)
EMPTY = tl.constexpr(NOTHING)
NEVER = tl.constexpr(-float("inf"))
LARGEST = tl.constexpr(float(np.finfo(np.float32).max))


def sample(logits: torch.Tensor, mask: Words | torch.Tensor | None, rows: Rows, vocab: int) -> Sampled:
    """Choose one token for each row of `logits` (B, V) among those that `mask` allows; ties: lowest id."""
    check(logits.shape, None if mask is None else mask.shape, vocab)
    logits = logits.contiguous()
    words = None if mask is None else torch.as_tensor(mask).to(logits.device, torch.int32).contiguous()
    cut = (rows.temperature > 0) & ((rows.top_k > 0) | (rows.top_p < 1))
    if cut.any():
        words = _narrowed(logits, words, rows, vocab, np.flatnonzero(cut))
    with torch.cuda.device_of(logits):
        ids, logprobs = _launch(logits, words, _settings(rows, logits.device), vocab).cpu().numpy()
    return Sampled(ids.astype(np.int64), logprobs.view(np.float32))


def _settings(rows: Rows, device: torch.device) -> torch.Tensor:
    """Temperature, seed and position of each row as bits, in one copy."""
    packed = np.stack([rows.temperature.view(np.int32), rows.seed.view(np.int32), rows.position.view(np.int32)], 1)
    return torch.from_numpy(packed).to(device)


def _narrowed(logits: torch.Tensor, words: torch.Tensor | None, rows: Rows, vocab: int, cut: Any) -> torch.Tensor:
    """The mask with only what top_k and top_p leave in the rows that have them."""
    width = -(-logits.shape[1] // 32)
    narrow = torch.full((len(logits), width), -1, dtype=torch.int32) if words is None else words.clone()
    narrow = narrow.to(logits.device)
    places = torch.arange(32, device=logits.device)
    for i in cut.tolist():
        allowed = torch_ops.unpack(narrow[i : i + 1], vocab, logits.device)[0]
        scores = torch_ops.clean(logits[i, :vocab]).masked_fill(~allowed, float("-inf")) / float(rows.temperature[i])
        kept = torch_ops.keep_top(scores, int(rows.top_k[i]), float(rows.top_p[i])).isfinite()
        bits = torch.zeros(width * 32, dtype=torch.int64, device=logits.device)
        bits[:vocab] = kept
        narrow[i] = (bits.view(width, 32) << places).sum(1).to(torch.int32)
    return narrow


def _launch(logits: torch.Tensor, words: torch.Tensor | None, settings: torch.Tensor, vocab: int) -> torch.Tensor:
    """Ids and the bits of log probabilities, (2, B) int32."""
    batch, width = logits.shape
    blocks = triton.cdiv(vocab, BLOCK)
    tokens = torch.empty((batch, blocks), dtype=torch.int32, device=logits.device)
    scores, tops, sums = torch.empty((3, batch, blocks), dtype=torch.float32, device=logits.device)
    out = torch.empty((2, batch), dtype=torch.int32, device=logits.device)
    parts = tokens, scores, tops, sums
    # Without fused multiply-add every step rounds as in `reference`.
    options = {"num_warps": WARPS, "enable_fp_fusion": False}
    _scan[(blocks, batch)](logits, words, settings, *parts, width, vocab, words is not None, BLOCK, **options)
    size = triton.next_power_of_2(blocks)
    _join[(batch,)](logits, *parts, out, width, batch, blocks, size, **options)
    return out


def _jit(kernel: Callable[..., Any]) -> Any:
    """Triton's decorator, with a type; it reads the annotations of what it decorates and knows only its own."""
    return triton.jit(kernel)


@_jit
def _mix(h: tl.tensor) -> tl.tensor:
    """`reference.mix`."""
    h = (h ^ (h >> 16)) * MIX_A
    h = (h ^ (h >> 13)) * MIX_B
    return h ^ (h >> 16)


@_jit
def _load(logits: tl.tensor, at: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Logits in float32; NaN counts as impossible, +inf as the largest number."""
    raw = tl.load(logits + at, mask=inside, other=NEVER).to(tl.float32)
    return tl.where(raw != raw, NEVER, tl.minimum(raw, LARGEST))


@_jit
def _scan(
    logits: tl.tensor,
    words: tl.tensor,
    settings: tl.tensor,
    tokens: tl.tensor,
    scores: tl.tensor,
    tops: tl.tensor,
    sums: tl.tensor,
    width: tl.tensor,
    vocab: tl.tensor,
    MASKED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of one row."""
    block, row = tl.program_id(0), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    inside = token < vocab
    raw = _load(logits, row.to(tl.int64) * width + token, inside)
    top = tl.max(raw, 0)
    total = tl.sum(tl.exp(raw - tl.where(top > NEVER, top, 0.0)), 0)
    allowed = inside
    if MASKED:
        per_row = (width + 31) // 32
        word = tl.load(words + row * per_row + token // 32, mask=inside, other=0)
        allowed = ((word >> (token % 32)) & 1) != 0
    score = tl.where(allowed, raw, NEVER)
    temperature = tl.load(settings + row * 3).to(tl.float32, bitcast=True)
    # A block without an allowed token needs no noise.
    if (temperature > 0) & (tl.max(score, 0) > NEVER):
        seed = tl.load(settings + row * 3 + 1).to(tl.uint32, bitcast=True)
        position = tl.load(settings + row * 3 + 2).to(tl.uint32, bitcast=True)
        bits = _mix(_mix(_mix(seed) ^ position) ^ (token.to(tl.uint32) * GOLDEN))
        uniform = ((bits >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
        score = tl.where(allowed, tl.div_rn(raw, temperature) - tl.log(-tl.log(uniform)), NEVER)
    best = tl.max(score, 0)
    at = row * tl.num_programs(0) + block
    lowest = tl.min(tl.where(score == best, token, NO_TOKEN), 0)
    tl.store(tokens + at, tl.where(best > NEVER, lowest, NO_TOKEN))
    tl.store(scores + at, best)
    tl.store(tops + at, top)
    tl.store(sums + at, total)


@_jit
def _join(
    logits: tl.tensor,
    tokens: tl.tensor,
    scores: tl.tensor,
    tops: tl.tensor,
    sums: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    batch: tl.tensor,
    blocks: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """The blocks of one row."""
    row = tl.program_id(0)
    block = tl.arange(0, SIZE)
    inside = block < blocks
    at = row * blocks + block
    score = tl.load(scores + at, mask=inside, other=NEVER)
    token = tl.load(tokens + at, mask=inside, other=NO_TOKEN)
    top = tl.load(tops + at, mask=inside, other=NEVER)
    total = tl.load(sums + at, mask=inside, other=0.0)
    token = tl.min(tl.where(score == tl.max(score, 0), token, NO_TOKEN), 0)
    found = token != NO_TOKEN
    highest = tl.where(tl.max(top, 0) > NEVER, tl.max(top, 0), 0.0)
    mass = tl.where(found, tl.sum(total * tl.exp(top - highest), 0), 1.0)
    chosen = _load(logits, row.to(tl.int64) * width + token, found) - (highest + tl.log(mass))
    tl.store(out + row, tl.where(found, token, EMPTY))
    tl.store(out + batch + row, tl.where(found, chosen, NEVER).to(tl.int32, bitcast=True))
