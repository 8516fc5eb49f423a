"""The kernel on torch tensors, for the CPU and for CUDA without Triton; the same ids as `reference`.

Logits stay where they are; masks and row settings come from the host, and one copy brings the answer back.
Rows that are greedy cost an argmax, rows without top_k and top_p need no sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nightschool.kernels.reference import GOLDEN, MIX_A, MIX_B, NOTHING, Rows, Sampled, Words, check

Words32 = npt.NDArray[np.uint32]

NEVER = float("-inf")
NOISE_RANGE = 20.0
"""Noise spans less than this, so a token further below the best one cannot win and needs none."""
HEAD = 1024
"""How many of the highest logits are looked at before all of them are sorted."""


def sample(logits: torch.Tensor, mask: Words | torch.Tensor | None, rows: Rows, vocab: int) -> Sampled:
    """Choose one token for each row of `logits` (B, V) among those that `mask` allows; ties: lowest id."""
    check(logits.shape, None if mask is None else mask.shape, vocab)
    raw = clean(logits[:, :vocab])
    scores = raw if mask is None else raw.masked_fill(~unpack(mask, vocab, raw.device), NEVER)
    if not rows.greedy:
        scores = _perturb(scores, rows)
    best, ids = _argmax(scores)
    logprobs = raw.log_softmax(1).gather(1, ids[:, None])[:, 0]
    dead = best == NEVER
    both = torch.stack([ids.masked_fill(dead, NOTHING).double(), logprobs.masked_fill(dead, NEVER).double()])
    ids_row, logprob_row = both.cpu().numpy()
    return Sampled(ids_row.astype(np.int64), logprob_row.astype(np.float32))


def clean(logits: torch.Tensor) -> torch.Tensor:
    """In float32; NaN counts as impossible, +inf as the largest number."""
    raw = logits.float()
    if bool(torch.isfinite(raw.sum())):
        return raw
    return raw.nan_to_num(nan=NEVER, posinf=torch.finfo(torch.float32).max, neginf=NEVER)


def unpack(mask: Words | torch.Tensor, vocab: int, device: torch.device) -> torch.Tensor:
    """The packed mask as booleans (B, vocab)."""
    if device.type == "cpu":
        words = np.ascontiguousarray(mask if isinstance(mask, np.ndarray) else mask.numpy())
        bits = np.unpackbits(words.astype("<i4", copy=False).view(np.uint8), axis=1, count=vocab, bitorder="little")
        return torch.from_numpy(bits.view(np.bool_))
    words_on = torch.as_tensor(mask).to(device)
    shifts = torch.arange(32, dtype=torch.int32, device=device)
    return ((words_on[:, :, None] >> shifts) & 1).flatten(1)[:, :vocab].bool()


def _argmax(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum of each row and the lowest id that reaches it (torch promises no order among equals)."""
    best, ids = scores.max(1)
    if scores.device.type == "cpu":
        return best, ids
    tokens = torch.arange(scores.shape[1], device=scores.device)
    return best, torch.where(scores == best[:, None], tokens, scores.shape[1]).amin(1)


def _perturb(scores: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Temper, cut and add noise in the rows that are drawn; greedy rows pass as they are."""
    drawn = np.flatnonzero(rows.temperature)
    where = torch.from_numpy(drawn).to(scores.device)
    part = scores[where] / _column(rows.temperature[drawn], scores)
    for i, (k, p) in enumerate(zip(rows.top_k[drawn].tolist(), rows.top_p[drawn].tolist(), strict=True)):
        if 0 < k < part.shape[1] or p < 1:
            part[i] = keep_top(part[i], k, p)
    row, token = (part >= part.amax(1, keepdim=True) - NOISE_RANGE).nonzero(as_tuple=True)
    noise = gumbel(rows.seed[drawn], rows.position[drawn], row, token)
    noisy = torch.full_like(part, NEVER).index_put((row, token), part[row, token] + noise)
    return noisy if len(drawn) == len(scores) else scores.index_copy(0, where, noisy)


def keep_top(row: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """The top_k highest, then the fewest of them whose share reaches top_p; all others become -inf."""
    top_k = top_k if 0 < top_k < len(row) else len(row)
    count = top_k if top_p >= 1 else _nucleus(row, top_k, top_p)
    cut = row.topk(count).values[-1]
    above, equal = row > cut, row == cut
    equal &= equal.cumsum(0) <= count - above.sum()
    return row.masked_fill(~(above | equal), NEVER)


def _nucleus(row: torch.Tensor, top_k: int, top_p: float) -> int:
    """How many of the top_k tokens stay; the sort of all of them is saved where the HEAD highest are enough."""
    kept = row if top_k == len(row) else row.topk(top_k).values
    wanted = top_p * (kept - row.max()).double().exp().sum()
    for head in (min(HEAD, top_k), top_k):
        weights = (row.topk(head).values - row.max()).double().exp()
        count = int((weights.cumsum(0) - weights < wanted).sum())
        if count < head:
            break
    return max(count, 1)


def gumbel(seed: Words32, position: Words32, row: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Gumbel noise for pairs of row and token: the hash of (seed, position, token id) as in `reference`."""
    start = _mix(_mix(_signed(seed, row.device)) ^ _signed(position, row.device))
    bits = _mix(start[row] ^ (token.int() * (GOLDEN - 2**32)))
    uniform = ((bits >> 9) & 0x7FFFFF).float().add_(0.5).mul_(2**-23)
    return uniform.log_().neg_().log_().neg_()


def _signed(values: Any, device: torch.device) -> torch.Tensor:
    """32-bit words as int32, whose arithmetic wraps on every device."""
    return torch.from_numpy(np.asarray(values, np.uint32).view(np.int32)).to(device)


def _mix(h: torch.Tensor) -> torch.Tensor:
    """The 32-bit finaliser of MurmurHash3 in int32; `& ...` makes the shifts logical."""
    h = (h ^ ((h >> 16) & 0xFFFF)) * (MIX_A - 2**32)
    h = (h ^ ((h >> 13) & 0x7FFFF)) * (MIX_B - 2**32)
    return h ^ ((h >> 16) & 0xFFFF)


def _column(values: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values)).to(like.device, like.dtype)[:, None]
