"""The torch kernel against the NumPy specification, and the specification against its promises."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.kernels import reference, torch_ops
from nightschool.kernels.choose import Sampler, choose
from nightschool.kernels.reference import NOTHING, Rows

SAMPLERS: dict[str, Sampler] = {
    "reference": reference.sample,
    "torch": lambda logits, *rest: torch_ops.sample(torch.from_numpy(logits), *rest),
}
both = pytest.mark.parametrize("sample", SAMPLERS.values(), ids=SAMPLERS)


def pack(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """Booleans (B, V) as packed words."""
    padded = np.zeros((len(allowed), -(-allowed.shape[1] // 32) * 32), bool)
    padded[:, : allowed.shape[1]] = allowed
    return np.packbits(padded, axis=1, bitorder="little").view("<i4").astype(np.int32)


def greedy(batch: int) -> Rows:
    return Rows.of([(0.0, 0, 1.0, 0, 0)] * batch)


row_settings = st.tuples(
    st.sampled_from([0.0, 0.3, 0.7, 1.0, 2.5]),
    st.sampled_from([0, 1, 3, 40, 10_000]),
    st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**32 - 1),
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(row_settings, min_size=1, max_size=6),
    width=st.integers(1, 300),
    padding=st.integers(0, 40),
    noise=st.integers(0, 2**32 - 1),
    density=st.sampled_from([None, 0.0, 0.02, 0.5, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
def test_torch_equals_reference(
    rows: list[tuple[float, int, float, int, int]],
    width: int,
    padding: int,
    noise: int,
    density: float | None,
    dtype: torch.dtype,
) -> None:
    rng = np.random.default_rng(noise)
    logits = torch.from_numpy(rng.normal(0, 4, (len(rows), width + padding)).astype(np.float32)).to(dtype)
    mask = None if density is None else pack(rng.random(logits.shape) < density)
    want = reference.sample(logits.float().numpy(), mask, Rows.of(rows), width)
    got = torch_ops.sample(logits, mask, Rows.of(rows), width)
    assert got.ids.tolist() == want.ids.tolist()
    np.testing.assert_allclose(got.logprobs, want.logprobs, rtol=1e-5, atol=1e-5)
    for i, chosen in enumerate(got.ids):
        assert chosen < width
        if mask is not None and chosen != NOTHING:
            assert mask[i, chosen // 32] >> (chosen % 32) & 1


@pytest.mark.parametrize("on_cpu", [True, False])
def test_both_ways_to_unpack_a_mask_agree(on_cpu: bool) -> None:
    mask = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 4), dtype=np.int32)
    device = torch.device("cpu" if on_cpu else "meta")
    got = torch_ops.unpack(mask, 101, device)
    assert got.shape == (3, 101)
    if on_cpu:
        assert got.tolist() == [reference.unpack(row, 101).tolist() for row in mask]


@both
def test_padded_ids_are_never_chosen(sample: Sampler) -> None:
    logits = np.zeros((2, 70), np.float32)
    logits[:, 64:] = 50
    assert sample(logits, None, greedy(2), 64).ids.tolist() == [0, 0]
    assert sample(logits, np.full((2, 3), -1, np.int32), greedy(2), 64).ids.tolist() == [0, 0]


@both
def test_a_row_without_tokens_is_nothing(sample: Sampler) -> None:
    logits = np.zeros((4, 40), np.float32)
    logits[2] = -np.inf
    logits[3] = np.nan
    mask = np.full((4, 2), -1, np.int32)
    mask[1] = 0
    for temperature in (0.0, 1.0):
        rows = Rows.of([(temperature, 0, 1.0, 7, 3)] * 4)
        sampled = sample(logits, mask, rows, 40)
        assert sampled.ids[1:].tolist() == [NOTHING] * 3
        assert sampled.ids[0] != NOTHING
        assert np.isneginf(sampled.logprobs[1:]).all()


@both
def test_a_mask_that_allows_only_padding_is_nothing(sample: Sampler) -> None:
    mask = pack(np.arange(70)[None] >= 64)
    assert sample(np.zeros((1, 70), np.float32), mask, greedy(1), 64).ids.tolist() == [NOTHING]


@both
def test_ties_go_to_the_lowest_id(sample: Sampler) -> None:
    logits = np.zeros((1, 5003), np.float32)
    logits[0, [4001, 77, 1200]] = 3
    assert sample(logits, None, greedy(1), 5003).ids.tolist() == [77]
    rows = Rows.of([(0.5, 1, 1.0, 9, 0)])
    assert sample(logits, None, rows, 5003).ids.tolist() == [77]


@both
def test_odd_numbers_in_logits(sample: Sampler) -> None:
    logits = np.array([[np.nan, 1.0, np.inf, -np.inf], [np.nan, 1.0, 2.0, -np.inf]], np.float32)
    sampled = sample(logits, None, greedy(2), 4)
    assert sampled.ids.tolist() == [2, 2]
    assert not np.isnan(sampled.logprobs).any()


@both
def test_logprobs_ignore_mask_and_temperature(sample: Sampler) -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25]], np.float32))
    sampled = sample(logits, pack(np.array([[False, True, False]])), Rows.of([(2.0, 0, 1.0, 5, 5)]), 3)
    assert sampled.ids.tolist() == [1]
    np.testing.assert_allclose(sampled.logprobs, [np.log(0.25)], atol=1e-6)


@both
def test_noise_depends_on_seed_position_and_token_only(sample: Sampler) -> None:
    logits = np.random.default_rng(0).normal(size=(8, 500)).astype(np.float32)
    rows = [(1.0, 0, 1.0, 100 + i, i) for i in range(8)]
    together = sample(logits, None, Rows.of(rows), 500).ids.tolist()
    alone = [int(sample(logits[i : i + 1], None, Rows.of(rows[i : i + 1]), 500).ids[0]) for i in range(8)]
    assert together == alone
    assert together != sample(logits, None, Rows.of([(1.0, 0, 1.0, 9, i) for i in range(8)]), 500).ids.tolist()


@both
def test_samples_follow_the_distribution(sample: Sampler) -> None:
    shares = np.array([0.6, 0.3, 0.1], np.float32)
    logits = np.repeat(np.log(shares)[None], 4000, 0)
    ids = sample(logits, None, Rows.of([(1.0, 0, 1.0, 42, i) for i in range(4000)]), 3).ids
    np.testing.assert_allclose(np.bincount(ids, minlength=3) / 4000, shares, atol=0.03)


@both
def test_top_p_keeps_the_fewest_that_reach_it(sample: Sampler) -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32)).repeat(300, 0)
    ids = sample(logits, None, Rows.of([(1.0, 0, 0.7, 3, i) for i in range(300)]), 4).ids
    assert set(ids.tolist()) == {0, 1}


@both
def test_a_mask_of_the_wrong_width_is_refused(sample: Sampler) -> None:
    with pytest.raises(ValueError, match="mask"):
        sample(np.zeros((1, 70), np.float32), np.zeros((1, 2), np.int32), greedy(1), 70)
    with pytest.raises(ValueError, match="vocab"):
        sample(np.zeros((1, 70), np.float32), None, greedy(1), 71)


def test_choose_says_why_and_refuses_an_unknown_device() -> None:
    assert choose("cpu")[0] is torch_ops.sample
    assert choose("cuda:1")[0] is torch_ops.sample
    assert choose("numpy")[0] is reference.sample
    assert all(choose(device)[1] for device in ("cpu", "numpy"))
    with pytest.raises(Problem, match="cuda"):
        choose("cudaa")
