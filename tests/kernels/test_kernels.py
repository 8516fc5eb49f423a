"""One contract for every implementation of the kernel, with the NumPy specification as the oracle."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightschool.kernels import reference
from nightschool.kernels.check import Given, differing, logprob_difference
from nightschool.kernels.reference import NOTHING, Rows, Sampled

Sample = Callable[..., Sampled]
Pack = Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.int32]]

EXAMPLES = 30 if os.environ.get("TRITON_INTERPRET") == "1" else 100
DTYPES = ("float32", "float16", "bfloat16")
DRAWN, GREEDY = (0.7, 0, 1.0), (0.0, 0, 1.0)
SAMPLINGS = {"greedy": GREEDY, "drawn": DRAWN, "top-k": (1.0, 5, 1.0), "top-p": (1.0, 0, 0.9)}
every_sampling = pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
row_settings = st.tuples(
    st.sampled_from([0.0, 0.3, 0.7, 1.0, 2.5]),
    st.sampled_from([0, 1, 3, 40, 10_000]),
    st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**32 - 1),
)


def rows_of(sampling: tuple[float, int, float], batch: int, seed: int = 7) -> Rows:
    return Rows.of([(*sampling, seed, 3 + i) for i in range(batch)])


def agree(sample: Sample, logits: npt.NDArray[np.float32], mask: Any, rows: Rows, vocab: int, dtype: str) -> Sampled:
    """The ids of the specification, and its log probabilities."""
    exact = narrowed(logits, dtype)
    want = reference.sample(exact, mask, rows, vocab)
    got = sample(exact, mask, rows, vocab, dtype)
    assert not differing(Given(exact, mask, rows, vocab), got, want), (got.ids, want.ids)
    assert logprob_difference(got, want) < 1e-4
    return got


def narrowed(logits: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.float32]:
    """Numbers that the dtype holds exactly."""
    if dtype == "float16":
        return logits.astype(np.float16).astype(np.float32)
    return (logits.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) if dtype == "bfloat16" else logits


def some_logits(batch: int, width: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 4, (batch, width)).astype(np.float32)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(row_settings, min_size=1, max_size=6),
    width=st.integers(1, 300),
    padding=st.integers(0, 40),
    noise=st.integers(0, 2**32 - 1),
    density=st.sampled_from([None, 0.0, 0.02, 0.5, 1.0]),
    odd=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_any_batch_is_drawn_as_specified(
    sample: Sample,
    pack: Pack,
    rows: list[tuple[float, int, float, int, int]],
    width: int,
    padding: int,
    noise: int,
    density: float | None,
    odd: bool,
    dtype: str,
) -> None:
    rng = np.random.default_rng(noise)
    logits = rng.normal(0, 4, (len(rows), width + padding)).astype(np.float32)
    if odd:
        logits[rng.random(logits.shape) < 0.1] = -np.inf
        logits[rng.random(logits.shape) < 0.1] = np.nan
    mask = None if density is None else pack(rng.random(logits.shape) < density)
    got = agree(sample, logits, mask, Rows.of(rows), width, dtype)
    for i, chosen in enumerate(got.ids):
        assert chosen < width
        if mask is not None and chosen != NOTHING:
            assert mask[i, chosen // 32] >> (chosen % 32) & 1


@pytest.mark.parametrize("dtype", DTYPES)
@every_sampling
def test_a_vocabulary_in_several_parts(
    sample: Sample, pack: Pack, sampling: tuple[float, int, float], dtype: str
) -> None:
    logits = some_logits(2, 5003)
    rows = rows_of(sampling, 2)
    agree(sample, logits, None, rows, 5000, dtype)
    for density in (0.002, 0.5):
        agree(sample, logits, pack(np.random.default_rng(1).random(logits.shape) < density), rows, 5000, dtype)


def test_all_ways_to_draw_mix_in_one_batch(sample: Sample, pack: Pack) -> None:
    logits = some_logits(12, 3000)
    allowed = np.random.default_rng(2).random(logits.shape) < np.repeat([0.5, 0.004, 1.0], 4)[:, None]
    rows = Rows.of([(*sampling, 5, 9) for sampling in SAMPLINGS.values()] * 3)
    agree(sample, logits, pack(allowed), rows, 2999, "float32")
    agree(sample, logits, None, rows, 2999, "float32")


@every_sampling
def test_padded_ids_are_never_chosen(sample: Sample, sampling: tuple[float, int, float]) -> None:
    logits = np.zeros((2, 70), np.float32)
    logits[:, 64:] = 50
    for mask in (None, np.full((2, 3), -1, np.int32)):
        assert agree(sample, logits, mask, rows_of(sampling, 2), 64, "float32").ids.max() < 64


@every_sampling
def test_a_row_without_tokens_is_nothing(sample: Sample, sampling: tuple[float, int, float]) -> None:
    logits = np.zeros((4, 40), np.float32)
    logits[2] = -np.inf
    logits[3] = np.nan
    mask = np.full((4, 2), -1, np.int32)
    mask[1] = 0
    sampled = sample(logits, mask, rows_of(sampling, 4), 40)
    assert sampled.ids[1:].tolist() == [NOTHING] * 3
    assert sampled.ids[0] != NOTHING
    assert np.isneginf(sampled.logprobs[1:]).all()
    assert sample(logits[2:], None, rows_of(sampling, 2), 40).ids.tolist() == [NOTHING] * 2


@every_sampling
def test_a_mask_that_allows_only_padding_is_nothing(
    sample: Sample, pack: Pack, sampling: tuple[float, int, float]
) -> None:
    mask = pack(np.arange(70)[None] >= 64)
    assert sample(np.zeros((1, 70), np.float32), mask, rows_of(sampling, 1), 64).ids.tolist() == [NOTHING]


@every_sampling
@pytest.mark.parametrize("only", [0, 31, 32, 63, 99])
def test_a_single_allowed_id_is_chosen(
    sample: Sample, pack: Pack, sampling: tuple[float, int, float], only: int
) -> None:
    logits = some_logits(1, 100)
    logits[0, only] = -60
    sampled = agree(sample, logits, pack(np.arange(100)[None] == only), rows_of(sampling, 1), 100, "float32")
    assert sampled.ids.tolist() == [only]


def test_ties_go_to_the_lowest_id(sample: Sample, pack: Pack) -> None:
    logits = np.zeros((1, 5003), np.float32)
    logits[0, [4001, 77, 1200]] = 3
    for mask, lowest in ((None, 77), (pack(np.arange(5003)[None] > 77), 1200)):
        assert sample(logits, mask, rows_of(GREEDY, 1), 5003).ids.tolist() == [lowest]
        assert sample(logits, mask, Rows.of([(0.5, 1, 1.0, 9, 0)]), 5003).ids.tolist() == [lowest]
    agree(sample, np.zeros((3, 2100), np.float32), None, rows_of((1.0, 40, 1.0), 3), 2100, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_numbers_in_logits(sample: Sample, dtype: str) -> None:
    inf, nan = np.inf, np.nan
    logits = np.array([[nan, 1, inf, -inf], [nan, 1, 2, -inf], [-inf, nan, -inf, 1]], np.float32)
    sampled = agree(sample, logits, None, rows_of(GREEDY, 3), 4, dtype)
    assert sampled.ids.tolist() == [2, 2, 3]
    assert not np.isnan(sampled.logprobs).any()
    assert agree(sample, logits, None, rows_of((2.5, 0, 1.0), 3), 4, dtype).ids.tolist() == [2, 2, 3]
    below = sample(logits, np.full((3, 1), 2, np.int32), rows_of(GREEDY, 3), 4, dtype)
    assert below.ids.tolist() == [1, 1, NOTHING]
    assert not np.isnan(below.logprobs).any()
    tied = np.array([[nan, inf, 1, inf]], np.float32)
    for sampling in (GREEDY, (2.5, 0, 1.0), (2.5, 1, 1.0)):
        assert sample(tied, None, rows_of(sampling, 1), 4, dtype).ids.tolist() == [1]


def test_temperature_zero_needs_no_seed_and_no_cut(sample: Sample) -> None:
    logits = some_logits(3, 90)
    ids = sample(
        logits, None, Rows.of([(0.0, k, p, seed, 1) for k, p, seed in ((0, 1.0, 1), (1, 0.1, 2), (9, 0.5, 3))]), 90
    ).ids
    assert ids.tolist() == logits.argmax(1).tolist()


def test_logprobs_ignore_mask_and_temperature(sample: Sample, pack: Pack) -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25]], np.float32))
    sampled = sample(logits, pack(np.array([[False, True, False]])), Rows.of([(2.0, 0, 1.0, 5, 5)]), 3)
    assert sampled.ids.tolist() == [1]
    np.testing.assert_allclose(sampled.logprobs, [np.log(0.25)], atol=1e-6)


@every_sampling
def test_batch_mates_change_nothing(sample: Sample, pack: Pack, sampling: tuple[float, int, float]) -> None:
    logits = some_logits(6, 500)
    mask = pack(np.random.default_rng(3).random(logits.shape) < np.linspace(0.01, 1, 6)[:, None])
    rows = [(*sampling, 100 + i, i) for i in range(6)]
    together = sample(logits, mask, Rows.of(rows), 500).ids.tolist()
    alone = [sample(logits[i : i + 1], mask[i : i + 1], Rows.of([rows[i]]), 500).ids[0] for i in range(6)]
    assert together == alone


def test_noise_depends_on_the_seed(sample: Sample) -> None:
    logits = some_logits(8, 500) / 4
    first, second = (sample(logits, None, rows_of(DRAWN, 8, seed), 500).ids.tolist() for seed in (1, 2))
    assert first != second


def test_samples_follow_the_distribution(sample: Sample, many: int) -> None:
    shares = np.array([0.6, 0.3, 0.1], np.float32)
    logits = np.repeat(np.log(shares)[None], many, 0)
    ids = sample(logits, None, Rows.of([(1.0, 0, 1.0, 42, i) for i in range(many)]), 3).ids
    np.testing.assert_allclose(np.bincount(ids, minlength=3) / many, shares, atol=2 / many**0.5)


def test_top_p_keeps_the_fewest_that_reach_it(sample: Sample) -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32)).repeat(60, 0)
    ids = sample(logits, None, Rows.of([(1.0, 0, 0.7, 3, i) for i in range(60)]), 4).ids
    assert set(ids.tolist()) == {0, 1}


@pytest.mark.parametrize("words", [2, 4])
def test_a_mask_of_the_wrong_width_is_refused(sample: Sample, words: int) -> None:
    with pytest.raises(ValueError, match="mask"):
        sample(np.zeros((1, 70), np.float32), np.zeros((1, words), np.int32), rows_of(GREEDY, 1), 70)


def test_a_vocabulary_beyond_the_logits_is_refused(sample: Sample) -> None:
    with pytest.raises(ValueError, match="vocab"):
        sample(np.zeros((1, 70), np.float32), None, rows_of(GREEDY, 1), 71)
