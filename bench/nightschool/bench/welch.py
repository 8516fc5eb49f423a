"""The ratio of two sets of samples, its interval and its p-value, and how several verdicts share one chance of error. Pure.

Yuen's form of Welch's t on the logarithms: what is compared is the ratio of the geometric means, the outermost samples put
aside, with each side's own spread. Times and speeds have relative noise with a long tail, which logarithm and trimming tame.
Holm's correction keeps the chance that any of several verdicts is wrong at the chance that was allowed for one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05
"""The chance of a wrong verdict that is allowed."""


TRIM = 0.15
"""The share of samples that is put aside at each end: none of five, one of ten, three of twenty."""


@dataclass(frozen=True, slots=True)
class Centre:
    """The trimmed mean of logarithms, its variance, and the degrees of freedom that this variance has."""

    mean: float
    variance: float
    freedom: int


@dataclass(frozen=True, slots=True)
class Noise:
    """How far the logarithm of a whole run strays from one run to the next: a variance, and its degrees of freedom."""

    variance: float
    freedom: float = math.inf


@dataclass(frozen=True, slots=True)
class Ratio:
    """`b` to `a`, the 95% interval of that ratio, and how likely one so far from 1 is where there is no difference."""

    ratio: float
    low: float
    high: float
    p_value: float


def centre(samples: Sequence[float]) -> Centre | None:
    """The middle of positive samples, two at least; else None."""
    if len(samples) < 2 or min(samples) <= 0:
        return None
    logs = sorted(math.log(one) for one in samples)
    aside = int(TRIM * len(logs))
    kept = logs[aside : len(logs) - aside]
    drawn_in = [kept[0]] * aside + kept + [kept[-1]] * aside
    variance = (len(logs) - 1) * statistics.variance(drawn_in) / (len(kept) * (len(kept) - 1))
    return Centre(statistics.fmean(kept), variance, len(kept) - 1)


def ratio(a: Sequence[Centre], b: Sequence[Centre], noise: Noise) -> Ratio:
    """Compare two sides, each the centres of one run or several; `noise` is how far a single run strays."""
    parts = [
        *((sum(one.variance for one in side) / len(side) ** 2, sum(one.freedom for one in side)) for side in (a, b)),
        (noise.variance * (1 / len(a) + 1 / len(b)), noise.freedom),
    ]
    variance = sum(part for part, _ in parts)
    delta = statistics.fmean(one.mean for one in b) - statistics.fmean(one.mean for one in a)
    if variance == 0:
        return Ratio(math.exp(delta), math.exp(delta), math.exp(delta), float(delta == 0))
    shares = sum((part / variance) ** 2 / freedom for part, freedom in parts)
    freedom = 1 / shares if shares else math.inf
    error = math.sqrt(variance)
    reach = quantile(1 - LEVEL / 2, freedom) * error
    p_value = 2 * (1 - cumulative(abs(delta) / error, freedom))
    return Ratio(math.exp(delta), math.exp(delta - reach), math.exp(delta + reach), p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, corrected so that all verdicts together err no more often than one would."""
    order = sorted(range(len(p_values)), key=lambda n: p_values[n])
    corrected, worst = [0.0] * len(p_values), 0.0
    for rank, n in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[n]))
        corrected[n] = worst
    return corrected


def cumulative(t: float, freedom: float) -> float:
    """Student's distribution: the chance of a value below `t`."""
    if math.isinf(freedom) or freedom > 1e6:
        return statistics.NormalDist().cdf(t)
    tail = _beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return 1 - tail if t > 0 else tail


def quantile(share: float, freedom: float) -> float:
    """The value below which this share (0.5 or more) of Student's distribution lies."""
    low, high = 0.0, 1.0
    while cumulative(high, freedom) < share:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cumulative(middle, freedom) < share else (low, middle)
    return high


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    total = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + numerator * d) or tiny)
            c = (1 + numerator / c) or tiny
            total *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * total
