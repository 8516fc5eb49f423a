"""A comparison for people: the table of verdicts, and what is to be said beside it."""

from __future__ import annotations

from nightschool.bench.compare import Comparison, Verdict, named
from nightschool.bench.tables import Table


def table(found: Comparison) -> Table:
    """The verdicts that say something, as a table; what is the same exactly is left to a sentence."""
    shown = [one for one in found.verdicts if one.low is not None or one.kind not in ("same", "unknown")]
    rows = tuple(
        (named(one.measure), _number(one.before), _number(one.after), one.measure.unit, *_change(one), _word(one))
        for one in shown
    )
    columns = ("measure", "A", "B", "unit", "B / A", "95% interval", "verdict")
    return Table("", columns, rows, (False, True, True, False, True, True, False))


def told(found: Comparison) -> list[str]:
    """What is to be said beside the table."""
    exact = sum(one.kind == "same" and one.low is None for one in found.verdicts)
    floors = [one.floor for one in found.verdicts if one.floor is not None]
    unknown = f"unknown, so what is below {found.threshold:.0%} is taken for noise: run A again, and keep it"
    floor = f"up to {max(floors):.1%} from one run to the next ({found.runs} runs of A)" if floors else unknown
    lines = [f"noise floor: {floor}"]
    lines += [f"{exact} counted figures are the same"] if exact else []
    lines += [f"{note}: {_listed(names)}" for note, names in _notes(found).items()]
    lines += [f"only in A: {name}" for name in found.only_before] + [f"only in B: {name}" for name in found.only_after]
    lines += [f"differs: {line}" for line in found.differs]
    return [*lines, _last(found)]


def _last(found: Comparison) -> str:
    """The verdict on the whole."""
    count = len(found.regressions)
    if count:
        return f"{count} regression{'s' * (count != 1)} beyond {found.threshold:.0%}"
    if all(one.kind == "unknown" for one in found.verdicts):
        return "nothing can be told"
    return "no difference" if found.is_same else f"no regression beyond {found.threshold:.0%}"


def _notes(found: Comparison) -> dict[str, list[str]]:
    """Why something is unknown, and what."""
    notes: dict[str, list[str]] = {}
    for one in found.verdicts:
        if one.note:
            notes.setdefault(one.note, []).append(named(one.measure))
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} figures"


def _word(one: Verdict) -> str:
    return {"same": "no difference", "worse": "REGRESSION" if one.regression else "worse"}.get(one.kind, one.kind)


def _change(one: Verdict) -> tuple[str, str]:
    if one.ratio is None:
        return "-", "-"
    return f"{one.ratio:.3f}", "exact" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"
