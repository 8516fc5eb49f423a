"""What an engine on MLX relies on beside the contract of all kernels: graphs, and logits that are log probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from nightschool.kernels import metal, mlx_ops, mlx_parts, reference
from nightschool.kernels.reference import NOTHING, Rows

Pack = Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.int32]]
DRAWS = pytest.mark.parametrize("module", [mlx_ops, metal], ids=["mlx", "metal"])


@DRAWS
@pytest.mark.usefixtures("metal_on_cpu")
def test_log_probabilities_need_no_sum(module: Any, pack: Pack) -> None:
    rng = np.random.default_rng(0)
    raw = rng.normal(0, 4, (6, 2500)).astype(np.float32)
    given = (raw - np.array([reference.logsumexp(row[:2490]) for row in raw])[:, None]).astype(np.float32)
    allowed = pack(rng.random(raw.shape) < np.repeat([0.004, 0.6], 3)[:, None])
    rows = Rows.of([(0.0, 0, 1.0, 1, 1), (0.7, 0, 1.0, 2, 2), (0.7, 9, 0.9, 3, 3)] * 2)
    for mask in (None, allowed):
        want = reference.sample(given, mask, rows, 2490)
        got = mlx_ops.evaluated(*module.draw(mx.array(given), mask, rows, 2490, normalised=True))
        assert got.ids.tolist() == want.ids.tolist()
        np.testing.assert_array_equal(got.logprobs, given[np.arange(6), got.ids])
    given[1] = np.nan
    for mask in (None, allowed):
        got = mlx_ops.evaluated(*module.draw(mx.array(given), mask, rows, 2490, normalised=True))
        assert (got.ids == NOTHING).tolist() == [False, True, False, False, False, False]


@DRAWS
@pytest.mark.usefixtures("metal_on_cpu")
def test_the_dtypes_of_a_graph(module: Any) -> None:
    ids, logprobs = module.draw(mx.zeros((2, 64)), None, Rows.of([(0.0, 0, 1.0, 0, 0), (1.0, 3, 1.0, 0, 0)]), 64)
    assert (ids.dtype, ids.shape, logprobs.dtype, logprobs.shape) == (mx.int32, (2,), mx.float32, (2,))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_drawing_never_waits_for_the_device(pack: Pack, normalised: bool, on_device: bool) -> None:
    """MLX refuses to evaluate what it traces."""
    rows = Rows.of([(0.0, 0, 1.0, 1, 1), (0.7, 0, 1.0, 2, 2), (0.7, 9, 1.0, 3, 3), (0.7, 0, 0.9, 3, 3)] * 2)
    words = pack(np.random.default_rng(0).random((8, 2500)) < np.repeat([0.004, 0.6], 4)[:, None])
    for mask in (None, mx.array(words) if on_device else words):

        def drawn(logits: mx.array, mask: Any = mask) -> tuple[mx.array, mx.array]:
            return mlx_ops.draw(logits, mask, rows, 2490, normalised=normalised)

        ids, _ = mx.compile(drawn)(mx.zeros((8, 2500)))
        assert ids.shape == (8,)
    with pytest.raises(ValueError, match="eval"):
        mx.compile(lambda logits: mx.array(logits.tolist()))(mx.zeros(3))


@pytest.mark.usefixtures("metal_on_cpu")
def test_rows_with_a_cut_leave_the_fused_kernel_and_come_back_to_their_places(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    draw = mlx_ops.draw

    def counted(logits: mx.array, *rest: Any, **options: Any) -> tuple[mx.array, mx.array]:
        given.append(logits.shape[0])
        return draw(logits, *rest, **options)

    monkeypatch.setattr(mlx_ops, "draw", counted)
    logits = np.random.default_rng(1).normal(0, 4, (4, 700)).astype(np.float32)
    mask = pack(np.random.default_rng(2).random(logits.shape) < 0.5)
    mixed = [(0.0, 5, 0.5, 1, 1), (0.7, 3, 1.0, 2, 2), (0.7, 0, 1.0, 3, 3), (0.7, 0, 0.9, 4, 4)]
    for chosen, delegated in ((mixed, [2]), ([mixed[0], mixed[2]] * 2, []), ([mixed[1], mixed[3]] * 2, [4])):
        given.clear()
        rows = Rows.of(chosen)
        got = metal.sample(mx.array(logits), mask, rows, 690)
        want = reference.sample(logits, mask, rows, 690)
        assert given == delegated
        assert got.ids.tolist() == want.ids.tolist()
        np.testing.assert_allclose(got.logprobs, want.logprobs, atol=1e-5)


@pytest.mark.parametrize("width", [4095, 4096, 4097, 6144, 7000])
def test_the_first_of_equal_maxima_is_found_in_every_block(width: int) -> None:
    rng = np.random.default_rng(width)
    scores = rng.integers(0, 50, (64, width)).astype(np.float32)
    scores[1] = -np.inf
    scores[2, -1] = 99
    scores[3, [0, width - 1]] = 99
    assert np.array(mlx_parts.first_best(mx.array(scores))).tolist() == scores.argmax(1).tolist()
