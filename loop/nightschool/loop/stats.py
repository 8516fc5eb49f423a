"""Statistics of paired scores: the same tasks, before and after. Pure and seeded.

The interval is a paired bootstrap over tasks. The p-value is a paired permutation test (each task's difference keeps or
changes its sign), which stays honest where a bootstrap does not: three tasks that all gain give 0.25, not 0. Both draw
counts per distinct difference, so scores of 0 and 1 cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 10_000
_EQUAL = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed over `n` tasks; `better`, `worse` and `same` count them."""

    n: int
    before: float
    after: float
    delta: float
    ci95: tuple[float, float]
    p_value: float
    better: int
    worse: int
    same: int


def mean(scores: Sequence[float]) -> float:
    """The mean, rounded so that the order of summation cannot change a verdict."""
    if not scores:
        raise ValueError("no scores")
    return round(sum(scores) / len(scores), 9)


def paired(before: Sequence[float], after: Sequence[float], *, seed: int = 0) -> Comparison:
    """Compare scores of the same tasks, in the same order."""
    import numpy as np

    if len(before) != len(after):
        raise ValueError(f"{len(before)} scores before, {len(after)} after: they are not paired")
    differences = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    n, draw = len(differences), np.random.default_rng(seed)
    values, counts = np.unique(np.round(differences, 9), return_counts=True)
    resampled = draw.multinomial(n, counts / n, size=RESAMPLES) @ values / n
    low, high = np.quantile(resampled, (0.025, 0.975))

    sizes, counts = np.unique(np.abs(np.round(differences, 9)), return_counts=True)
    flipped = (2 * draw.binomial(counts, 0.5, size=(RESAMPLES, len(counts))) - counts) @ sizes / n
    extreme = int((np.abs(flipped) >= abs(differences.mean()) - _EQUAL).sum())

    better, worse = int((differences > _EQUAL).sum()), int((differences < -_EQUAL).sum())
    return Comparison(
        n=n,
        before=mean(before),
        after=mean(after),
        delta=round(float(differences.mean()), 9),
        ci95=(round(float(low), 9), round(float(high), 9)),
        p_value=(extreme + 1) / (RESAMPLES + 1),
        better=better,
        worse=worse,
        same=n - better - worse,
    )
