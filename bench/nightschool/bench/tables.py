"""The measures of a record as tables: what hangs together stands together, and only what varies has a column.

Measures with the same parameters make one table. Where every figure has a unit or a name of its own and it fits, the figures
stand side by side, a row for each setting; else there is a row for each figure. A measure that is named as one of its
parameters ranks it: the largest first, the rest summed up in a line, so that the figures still add up. How a table is
written, as text or Markdown, is `render.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nightschool.bench.result import Measure, Record, Value

WIDTH, GAP = 80, 2
"""Columns of a terminal, and those between two columns of a table."""
NARROWEST = 10
"""Columns that words are left with, however many figures there are."""
TOP = 12
"""Rows of a ranking."""
PLACE = "at"
"""The parameter that says where something stands: FILE:LINE."""
WORDS = {"tok": "tokens"}
"""Figures whose name tells their unit."""
PERIOD, ONE = "per", "session"
"""The parameter that tells a multiple of a figure (a day's) from the figure itself."""
SIDE_BY_SIDE = 6
"""Figures that stand side by side at most."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown; `figures` tells which columns stand to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures: tuple[bool, ...]

    @property
    def least_width(self) -> int:
        """Columns of a terminal that it takes, words cut as short as they may be."""
        cells = zip(*(self.columns, *self.rows), strict=True)
        longest = [max(map(len, column)) for column in cells]
        least = [n if right else min(n, NARROWEST) for n, right in zip(longest, self.figures, strict=True)]
        return sum(least) + GAP * (len(least) - 1)


def groups(measures: Iterable[Measure]) -> list[list[Measure]]:
    """The measures that share a table: those with the same parameters, and rankings each by itself."""
    found: dict[object, list[Measure]] = {}
    for one in measures:
        rest = [(key, value) for key, value in one.params.items() if key not in (one.name, PLACE)]
        found.setdefault((one.name, tuple(rest)) if is_ranked(one) else tuple(one.params), []).append(one)
    return list(found.values())


def is_ranked(one: Measure) -> bool:
    """Whether it ranks the values of a parameter."""
    return one.name in one.params


def tables(record: Record) -> list[Table]:
    """Every table of a record, in the order in which it was measured."""
    return [table(group) for group in groups(record.measures)]


def table(group: Sequence[Measure]) -> Table:
    """One group as a table."""
    if is_ranked(group[0]):
        return _ranking(group)
    if wide := _wide([one for one in group if one.samples]):
        return wide
    keys, constant = split(group)
    return _long(group, keys, _titled(constant))


def split(group: Sequence[Measure]) -> tuple[list[str], dict[str, Value]]:
    """The parameters that vary, and those that do not."""
    keys = list(group[0].params)
    varied = [key for key in keys if len({one.params[key] for one in group}) > 1]
    return varied, {key: group[0].params[key] for key in keys if key not in varied}


def is_multiple(one: Measure) -> bool:
    """Whether it is another figure times a number: it tells nothing that the other does not."""
    return one.params.get(PERIOD, ONE) != ONE


def figure(one: Measure | None) -> str:
    """`131.42 ± 0.59`, `4,139`, or `-` where it could not be had."""
    if one is None or one.mean is None:
        return "-"
    digits = _digits(one)
    spread = f" ± {one.spread:,.{digits}f}" if one.spread is not None and not is_multiple(one) else ""
    return f"{one.mean:,.{digits}f}{spread}"


def plain(value: Value) -> str:
    """A parameter as it is shown."""
    return {True: "yes", False: "no", None: "-"}[value] if value is None or isinstance(value, bool) else str(value)


def _digits(one: Measure) -> int:
    """Decimals: none for counts, else enough for three significant digits."""
    mean = abs(one.mean or 0.0)
    if all(sample == int(sample) for sample in one.samples) and not one.spread:
        return 0
    return 0 if mean >= 1000 else 2 if mean >= 1 else 3 if mean >= 0.1 else 5


def _values(one: Measure, keys: Sequence[str]) -> tuple[Value, ...]:
    return tuple(one.params[key] for key in keys)


def _titled(constant: Mapping[str, Value]) -> str:
    return ", ".join(f"{key} {plain(value)}" for key, value in constant.items())


def _wide(group: Sequence[Measure]) -> Table | None:
    """A row for each setting, a column for each figure; None where that does not fit.

    What could not be had has no row: why stands below the tables.
    """
    if not group:
        return None
    keys, constant = split(group)
    names = list(dict.fromkeys((one.name, one.unit) for one in group))
    settings = list(dict.fromkeys(_values(one, keys) for one in group))
    if not keys or len(names) > SIDE_BY_SIDE:
        return None
    known = {(_values(one, keys), one.name, one.unit): one for one in group}
    rows = [(*map(plain, values), *(figure(known.get((values, *name))) for name in names)) for values in settings]
    columns = (*keys, *(name if name == WORDS.get(unit, unit) else f"{name} {unit}" for name, unit in names))
    right = tuple(all(_is_number(values[n]) for values in settings) for n in range(len(keys)))
    made = Table(_titled(constant), columns, tuple(rows), (*right, *(True for _ in names)))
    return made if made.least_width <= WIDTH else None


def _long(group: Sequence[Measure], keys: Sequence[str], title: str) -> Table:
    """A row for each figure."""
    rows = tuple((one.name, *map(plain, _values(one, keys)), figure(one), one.unit) for one in group)
    right = tuple(all(_is_number(one.params[key]) for one in group) for key in keys)
    return Table(title, ("test", *keys, "figure", "unit"), rows, (False, *right, True, False))


def _ranking(group: Sequence[Measure]) -> Table:
    """The largest first, and what the others come to."""
    name, unit = group[0].name, group[0].unit
    keys, constant = split(group)
    total = sum(one.mean or 0.0 for one in group)
    ordered = sorted(group, key=lambda one: -(one.mean or 0.0))
    shown, rest = ordered[:TOP], ordered[TOP:]
    columns = [*(key for key in keys if key != name), name]
    rows = [
        (*(plain(one.params[key]) for key in columns), figure(one), _share(one.mean or 0.0, total)) for one in shown
    ]
    if rest:
        left = sum(one.mean or 0.0 for one in rest)
        rows.append((*("" for _ in columns[1:]), f"{len(rest)} more", f"{left:,.0f}", _share(left, total)))
    rows.append((*("" for _ in columns[1:]), "all", f"{total:,.0f}", _share(total, total)))
    title = ", ".join(
        [f"{name}, the largest first", *(f"{key} {plain(v)}" for key, v in constant.items() if key != name)]
    )
    return Table(title, (*columns, unit, "share"), tuple(rows), (*(False for _ in columns), True, True))


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
