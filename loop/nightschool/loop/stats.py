"""Statistics of paired scores: the same tasks, before and after. Pure and seeded.

The interval is a paired bootstrap over tasks. The p-value is a paired permutation test (each task's difference keeps or
changes its sign), which stays honest where a bootstrap does not: three tasks that all gain give 0.25, not 0. Both draw
counts per distinct difference, so scores of 0 and 1 cost next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
_ROUNDING = 1e-7


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


def sign_test(better: int, worse: int) -> float:
    """One-sided exact sign test: how often fair coins give at least `better` of the tasks that changed."""
    changed = better + worse
    ways: int = sum(math.comb(changed, heads) for heads in range(better, changed + 1))
    return ways / (1 << changed)


def paired(before: Sequence[float], after: Sequence[float], *, seed: int = 0) -> Comparison:
    """Compare scores of the same tasks, in the same order."""
    import numpy as np

    if len(before) != len(after):
        raise ValueError(f"{len(before)} scores before, {len(after)} after: they are not paired")
    means = mean(before), mean(after)
    differences = np.round(np.asarray(after, np.float64) - np.asarray(before, np.float64), 9)
    draw = np.random.default_rng(seed)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    return Comparison(
        n=len(before),
        before=means[0],
        after=means[1],
        delta=round(float(differences.mean()), 9),
        ci95=_interval(differences, draw),
        p_value=_p_value(differences, draw),
        better=better,
        worse=worse,
        same=len(before) - better - worse,
    )


def _interval(differences: NDArray[np.float64], draw: np.random.Generator) -> tuple[float, float]:
    """The middle 95% of the means of resampled tasks."""
    import numpy as np

    values, counts = np.unique(differences, return_counts=True)
    means = draw.multinomial(len(differences), counts / len(differences), RESAMPLES) @ values / len(differences)
    low, high = np.quantile(means, (0.025, 0.975))
    return round(float(low), 9), round(float(high), 9)


def _p_value(differences: NDArray[np.float64], draw: np.random.Generator) -> float:
    """How often differences of random sign have a mean as far from 0 as the one seen."""
    import numpy as np

    sizes, counts = np.unique(np.abs(differences), return_counts=True)
    sums = (2 * draw.binomial(counts, 0.5, (RESAMPLES, len(counts))) - counts) @ sizes
    extreme = int((np.abs(sums) >= abs(differences.sum()) - _ROUNDING).sum())
    return round((extreme + 1) / (RESAMPLES + 1), 9)
