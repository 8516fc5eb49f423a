"""Paired statistics against cases that can be worked out by hand."""

from math import comb, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.loop.stats import mean, paired, sign_test

SCORES = st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=1, max_size=30)


def test_counts_and_means() -> None:
    result = paired([0, 0, 1, 1, 0.5], [1, 0, 1, 0, 1])
    assert (result.n, result.before, result.after, result.delta) == (5, 0.5, 0.6, 0.1)
    assert (result.better, result.worse, result.same) == (2, 1, 2)


def test_no_change_is_no_evidence() -> None:
    result = paired([0, 1, 1], [0, 1, 1])
    assert (result.delta, result.ci95, result.p_value) == (0.0, (0.0, 0.0), 1.0)


@pytest.mark.parametrize("gains", [1, 3, 5, 8])
def test_p_of_gains_only_is_that_of_the_sign_test(gains: int) -> None:
    result = paired([0] * 20, [1] * gains + [0] * (20 - gains))
    assert result.p_value == pytest.approx(2 * 0.5**gains, abs=0.015)


def test_p_of_zeros_and_ones_is_that_of_the_exact_test_on_discordant_pairs() -> None:
    result = paired([0] * 9 + [1] * 2 + [1] * 9, [1] * 9 + [0] * 2 + [1] * 9)
    exact = 2 * sum(comb(11, k) for k in range(9, 12)) / 2**11
    assert result.p_value == pytest.approx(exact, abs=0.015)


def test_interval_is_that_of_the_normal_distribution_for_many_tasks() -> None:
    n, gains = 1000, 300
    result = paired([0] * n, [1] * gains + [0] * (n - gains))
    half = 1.96 * sqrt(0.3 * 0.7 / n)
    assert result.ci95 == pytest.approx((0.3 - half, 0.3 + half), abs=0.004)


def test_the_seed_decides_every_figure() -> None:
    before, after = [0.11 * n for n in range(9)], [(7 * n % 9) / 9 for n in range(9)]
    assert paired(before, after, seed=1) == paired(before, after, seed=1)
    assert paired(before, after, seed=1) != paired(before, after, seed=2)


@settings(max_examples=25, deadline=None)
@given(SCORES)
def test_swapping_the_sides_mirrors_the_result(scores: list[tuple[float, float]]) -> None:
    before, after = zip(*scores, strict=True)
    there, back = paired(before, after), paired(after, before)
    assert there.delta == -back.delta
    assert (there.better, there.worse) == (back.worse, back.better)
    assert 0 < there.p_value <= 1


def test_the_mean_does_not_depend_on_the_order() -> None:
    scores = [0.1, 0.7, 1 / 3, 2 / 3] * 7
    assert mean(scores) == mean(sorted(scores))


def test_scores_must_be_paired_and_there() -> None:
    with pytest.raises(ValueError, match="2 scores before, 1 after"):
        paired([1, 1], [1])
    with pytest.raises(ValueError, match="no scores"):
        paired([], [])
    with pytest.raises(ValueError, match="no scores"):
        mean([])


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [(0, 0, 1), (1, 0, 1 / 2), (5, 0, 1 / 32), (2, 1, 1 / 2), (0, 3, 1), (5000, 0, 2.0**-5000)],
)
def test_sign_test_by_hand(better: int, worse: int, p: float) -> None:
    assert sign_test(better, worse) == p


@given(st.integers(1, 60), st.integers(0, 60))
def test_sign_test_and_its_complement_are_everything(better: int, worse: int) -> None:
    assert sign_test(better, worse) + sign_test(worse + 1, better - 1) == pytest.approx(1)
