"""Figures as a person reads them in a line of text."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(scores: Sequence[float]) -> str:
    """Scores in [0, 1] as a row of bars."""
    return "".join(BARS[min(int(score * len(BARS)), len(BARS) - 1)] for score in scores)


def clock(seconds: float) -> str:
    """`1 h 12 min`, `4 min 05 s`, `8 s`."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def about(seconds: float) -> str:
    """An estimate: `1 h 12 min`, `4 min`, `40 s`."""
    return clock(seconds) if not 60 <= seconds < 3600 else f"{round(seconds / 60)} min"


def score(value: float | None) -> str:
    """`0.375`, or `-` when nothing was scored."""
    return "-" if value is None else f"{value:.3f}"


def chance(value: float) -> str:
    """A p-value: `0.034`, or `< 0.001`."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
