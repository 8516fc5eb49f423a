"""What of a record is worth a picture: lines where a figure depends on a number, bars where it depends on a choice.

A ranking becomes bars, the largest on top. Figures of another unit have a panel of their own. Multiples of a figure (a day,
a year) and a figure that stands alone are for the tables. How a panel looks is `plot.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nightschool.bench.result import Measure, Record, Value
from nightschool.bench.tables import PERIOD, PLACE, TOP, groups, is_multiple, is_ranked, plain, split

LEAST_POINTS = 3
"""Values of a number that make a line."""
MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class Point:
    """One figure: where it stands, what it is called, and all its samples."""

    x: float
    label: str
    samples: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the samples."""
        return sum(self.samples) / len(self.samples)


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind, by x."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: lines over `x`, or bars if there is no x."""

    title: str
    unit: str
    series: tuple[Series, ...]
    x: str | None = None


def panels(record: Record) -> list[Panel]:
    """The pictures of a record, in the order of its tables."""
    return [panel for group in groups(_drawable(record)) for panel in _of(group)]


def _drawable(record: Record) -> Iterator[Measure]:
    return (one for one in record.measures if one.samples and not is_multiple(one))


def _of(group: Sequence[Measure]) -> Iterator[Panel]:
    """The panels of one group: one for each unit over a number, else one for each figure."""
    varied, constant = split(group)
    about = [f"{key} {plain(value)}" for key, value in constant.items() if key != PERIOD]
    if is_ranked(group[0]):
        yield _ranking(group, about)
        return
    numbers = [key for key in varied if _is_line(group, key)]
    if numbers:
        x = max(numbers, key=lambda key: len(_values(group, key)))
        for unit in dict.fromkeys(one.unit for one in group):
            yield from _over([one for one in group if one.unit == unit], x, varied, about)
        return
    for name, unit in dict.fromkeys((one.name, one.unit) for one in group):
        same = [one for one in group if (one.name, one.unit) == (name, unit)]
        if len(same) > 1:
            bars = tuple(Point(n, _label(one, varied) or name, one.samples) for n, one in enumerate(same))
            yield Panel(", ".join([name, *about]), unit, (Series(name, bars),))


def _ranking(group: Sequence[Measure], about: Sequence[str]) -> Panel:
    name = group[0].name
    ordered = sorted(group, key=lambda one: -(one.mean or 0.0))[:TOP]
    bars = tuple(Point(n, plain(one.params[name]), one.samples) for n, one in enumerate(ordered))
    told = [part for part in about if not part.startswith((f"{name} ", f"{PLACE} "))]
    return Panel(", ".join([f"{name}, the largest first", *told]), group[0].unit, (Series(name, bars),))


def _over(group: Sequence[Measure], x: str, varied: Sequence[str], about: Sequence[str]) -> Iterator[Panel]:
    """One panel of lines, or one for each figure where there are more than an eye can follow."""
    whole = _lines(group, x, varied, about)
    names = list(dict.fromkeys(one.name for one in group))
    if len(whole.series) <= MOST_LINES or len(names) == 1:
        parts = [whole]
    else:
        parts = [_lines([one for one in group if one.name == name], x, varied, about) for name in names]
    yield from (part for part in parts if part.series)


def _lines(group: Sequence[Measure], x: str, varied: Sequence[str], about: Sequence[str]) -> Panel:
    names = list(dict.fromkeys(one.name for one in group))
    others = [key for key in varied if key != x]
    series: dict[str, list[Point]] = {}
    for one in group:
        label = ", ".join([*([one.name] if len(names) > 1 else []), *filter(None, [_label(one, others)])])
        series.setdefault(label or one.name, []).append(Point(float(one.params[x] or 0), "", one.samples))
    title = ", ".join([names[0] if len(names) == 1 else f"by {x}", *about])
    found = tuple(
        Series(label, tuple(sorted(points, key=lambda at: at.x))) for label, points in series.items() if len(points) > 1
    )
    return Panel(title, group[0].unit, found, x)


def _label(one: Measure, keys: Sequence[str]) -> str:
    parts = [(key, one.params[key]) for key in keys]
    return ", ".join(plain(value) if isinstance(value, str) else f"{key} {plain(value)}" for key, value in parts)


def _is_line(group: Sequence[Measure], key: str) -> bool:
    values = _values(group, key)
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and len(values) >= LEAST_POINTS


def _values(group: Sequence[Measure], key: str) -> set[Value]:
    return {one.params[key] for one in group}
