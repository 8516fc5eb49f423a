"""The kernel on an Apple GPU: mask, temperature, noise, argmax and log probability in one dispatch, `sample.metal`.

Rows with top_k or top_p are left to `mlx_ops`: their cut needs an order over the row, and under a grammar, where
few tokens are allowed, gathering those costs less than a pass over all. The other rows of the batch stay fused.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nightschool.kernels import mlx_ops
from nightschool.kernels.mlx_parts import rows_at, starts
from nightschool.kernels.reference import Rows, Sampled, Words, check

THREADS = 1024
"""Of a row's group: the most that Metal runs together, as a row is read once and by its group alone."""
NAMES = ("logits", "mask", "settings", "vocab"), ("ids", "logprobs")
SMALL = 8
"""MLX compiles anew when an array has fewer elements than this, or no longer has."""


def sample(logits: mx.array, mask: Words | mx.array | None, rows: Rows, vocab: int) -> Sampled:
    """Choose one token for each row of `logits` (B, V) among those that `mask` allows; ties: lowest id."""
    return mlx_ops.evaluated(*draw(logits, mask, rows, vocab))


def draw(
    logits: mx.array, mask: Words | mx.array | None, rows: Rows, vocab: int, *, normalised: bool = False
) -> tuple[mx.array, mx.array]:
    """`sample` as a graph: ids (int32) and log probabilities, neither evaluated; `normalised` as in `mlx_ops.draw`."""
    check(logits.shape, None if mask is None else mask.shape, vocab)
    cut = (rows.temperature > 0) & ((rows.top_k > 0) | (rows.top_p < 1))
    if cut.all():
        return mlx_ops.draw(logits, mask, rows, vocab, normalised=normalised)
    ids, logprobs = _fused(logits, mask, rows, vocab, normalised)
    if cut.any():
        members = np.flatnonzero(cut)
        at = mx.array(members)
        shut = mask if mask is None else mask[members if isinstance(mask, np.ndarray) else at]
        ids[at], logprobs[at] = mlx_ops.draw(logits[at], shut, rows_at(rows, members), vocab, normalised=normalised)
    return ids, logprobs


def source() -> tuple[str, str]:
    """What MLX puts before the kernel's function, and the body of the function."""
    header, body = Path(__file__).with_name("sample.metal").read_text("utf-8").split("// body\n")
    return header, body


@lru_cache(maxsize=1)
def kernel() -> Any:
    """The kernel, built at its first use: MLX then keeps what it compiles of it."""
    header, body = source()
    inputs, outputs = NAMES
    return mx.fast.metal_kernel("nightschool_sample", list(inputs), list(outputs), body, header)


def _fused(
    logits: mx.array, mask: Words | mx.array | None, rows: Rows, vocab: int, normalised: bool
) -> tuple[mx.array, mx.array]:
    """All rows, as if none had top_k or top_p."""
    batch = logits.shape[0]
    words = mx.zeros(SMALL, mx.int32) if mask is None else mx.array(mask)
    ids, logprobs = kernel()(
        inputs=[logits, words, mx.array(_settings(rows)), mx.array(vocab, mx.int32)],
        template=[("T", logits.dtype), ("MASKED", mask is not None), ("NORMALISED", normalised)],
        grid=(THREADS, batch, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(batch,), (batch,)],
        output_dtypes=[mx.int32, mx.float32],
    )
    return ids, logprobs


def _settings(rows: Rows) -> npt.NDArray[np.uint32]:
    """For each row the bits of its temperature and the hash of its seed and position; never SMALL."""
    batch = len(rows.seed)
    settings = np.zeros((max(batch, SMALL // 2), 2), np.uint32)
    settings[:batch, 0] = rows.temperature.view(np.uint32)
    settings[:batch, 1] = starts(rows)
    return settings
