"""Whether one record is faster or dearer than another: like with like only, with an interval, and what noise alone does.

Two records compare if bench, machine, model, dtype and backend are the same; versions, commit, load and settings may differ,
and are told. Measures compare if their keys are equal. A difference is called one if it is sure to 95%, by Welch's test with
Holm's correction over all measures of the record.

The unit is the run. Kept records that are like A, or like B, in all, commit and versions too, count as more runs of that
side, and how far they stray from one another (A/A) is the noise floor, which widens every interval. Without any it is
unknown: on a calm machine UNSEEN stands in, and a difference below the threshold is not told from noise; on a busy one no
difference is. What is counted, not timed, is compared exactly.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from nightschool.bench.result import Measure, Record, Value
from nightschool.bench.tables import is_multiple
from nightschool.bench.welch import LEVEL, Centre, Noise, Ratio, centre, holm, ratio
from nightschool.disk.errors import Problem

THRESHOLD = 0.05
"""How much worse is a regression."""
EXACT = ("tok", "B", "MB", "%")
"""Units that are counted, not timed: one sample of each tells all."""
BUSY = 0.5
"""Load a core from which on a machine is busy with other things."""
UNSEEN = Noise(0.01**2)
"""What runs stray if nobody has looked: one percent."""

Key = tuple[str, str, tuple[tuple[str, Value], ...]]
Kind = Literal["same", "better", "worse", "differs", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One measure: the median of A's runs and of B's, the ratio with its interval, what it means; `floor` is A/A's noise.

    `differs` is a difference where neither way is better; `unknown` says why in `note`.
    """

    measure: Measure
    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    """After the correction for the number of measures."""
    floor: float | None
    kind: Kind
    regression: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All verdicts; what differs besides; how many runs each side has; measures that only one side has."""

    verdicts: tuple[Verdict, ...]
    differs: tuple[str, ...]
    runs: tuple[int, int]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    threshold: float

    @property
    def regressions(self) -> tuple[Verdict, ...]:
        """What got worse beyond the threshold."""
        return tuple(verdict for verdict in self.verdicts if verdict.regression)

    @property
    def is_same(self) -> bool:
        """Whether no measure shows a difference."""
        return all(verdict.kind in ("same", "unknown") for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": 1, "same": self.is_same, "regressions": len(self.regressions), **asdict(self)}


def compare(before: Record, after: Record, *, threshold: float = THRESHOLD, kept: Iterable[Record] = ()) -> Comparison:
    """B against A. Of the `kept` records those count that are more runs of A or of B."""
    if unlike := _unlike(before, after):
        advice = "measure both on one machine, with one model and backend"
        raise Problem(f"not like with like: {'; '.join(unlike)}", advice)
    others = [one for one in kept if one not in (before, after)]
    sides = [[one, *(other for other in others if same_thing(one, other))] for one in (before, after)]
    again = same_thing(before, after)
    mine, theirs = ({one.key: one for one in record.measures if not is_multiple(one)} for record in (before, after))
    both = [key for key in mine if key in theirs]
    if not both:
        raise Problem("the records have no measure in common", "measure both with the same settings")
    floors = _noise(sides[:1] if again else sides)
    busy = any((record.machine.load or 0) > BUSY for record in (before, after))
    drafts = [(mine[key], theirs[key], floors.get(key)) for key in both]
    counted = [[before], [after]] if again else sides
    centres = [[_centres(side, key) for side in counted] for key in both]
    ratios = [
        ratio(a, b, floor or UNSEEN) if a and b else None for (a, b), (_, _, floor) in zip(centres, drafts, strict=True)
    ]
    corrected = iter(holm([found.p_value for found in ratios if found]))
    verdicts = tuple(
        _verdict(a, b, floor, found, next(corrected), threshold, busy) if found else _without_noise(a, b, threshold)
        for (a, b, floor), found in zip(drafts, ratios, strict=True)
    )
    told = [(_typical(counted[0], one.key), _typical(counted[1], one.key)) for one, _, _ in drafts]
    return Comparison(
        tuple(replace(verdict, before=a, after=b) for verdict, (a, b) in zip(verdicts, told, strict=True)),
        tuple(_told(before, after)),
        (len(counted[0]), len(counted[1])),
        tuple(named(mine[key]) for key in mine if key not in theirs),
        tuple(named(theirs[key]) for key in theirs if key not in mine),
        threshold,
    )


def same_thing(one: Record, other: Record) -> bool:
    """Whether two records are runs of the very same thing: an A/A pair."""
    machine = one.machine.versions == other.machine.versions
    same = (one.commit, one.settings) == (other.commit, other.settings)
    return not _unlike(one, other) and machine and same


def named(one: Measure) -> str:
    """`pp512 batch=8`."""
    return " ".join([one.name, *(f"{key}={value}" for key, value in one.params.items())])


def _verdict(
    a: Measure, b: Measure, noise: Noise | None, found: Ratio, p: float, threshold: float, busy: bool
) -> Verdict:
    floor = None if noise is None else math.expm1(1.96 * math.sqrt(2 * noise.variance))
    if noise is None and busy:
        said = "the machine was busy, and only more runs of A or B could tell how much that matters"
        return Verdict(b, None, None, found.ratio, found.low, found.high, p, None, "unknown", False, said)
    hidden = floor is None and abs(found.ratio - 1) < threshold
    kind: Kind = "same" if p >= LEVEL or hidden else _direction(a, found.ratio)
    lost = kind == "worse" and _loss(a, found.ratio) > threshold
    return Verdict(b, None, None, found.ratio, found.low, found.high, p, floor, kind, lost)


def _without_noise(a: Measure, b: Measure, threshold: float) -> Verdict:
    """Where there is nothing to tell noise by."""
    plain = Verdict(b, None, None, None, None, None, None, None, "unknown", False)
    if a.mean is None or b.mean is None:
        return replace(plain, note="one side could not be measured")
    if a.unit not in EXACT:
        return replace(plain, note="too few samples: measure with more --repeats")
    if a.mean == b.mean:
        return replace(plain, ratio=1.0, kind="same")
    if a.mean <= 0:
        return replace(plain, kind=_direction(a, math.inf), regression=a.better == "lower")
    change = b.mean / a.mean
    kind = _direction(a, change)
    return replace(plain, ratio=change, kind=kind, regression=kind == "worse" and _loss(a, change) > threshold)


def _direction(a: Measure, change: float) -> Kind:
    if a.better == "neither":
        return "differs"
    return "better" if (change > 1) == (a.better == "higher") else "worse"


def _loss(a: Measure, change: float) -> float:
    """How much worse, as a share of A."""
    return 1 - change if a.better == "higher" else change - 1


def _centres(runs: Sequence[Record], key: Key) -> list[Centre]:
    """The middle of one measure in each run that has enough samples of it."""
    found = (centre(one.samples) for run in runs for one in run.measures if one.key == key)
    return [middle for middle in found if middle]


def _typical(runs: Sequence[Record], key: Key) -> float | None:
    """The median of the runs' medians."""
    medians = [one.median for run in runs for one in run.measures if one.key == key and one.median is not None]
    return statistics.median(medians) if medians else None


def _noise(sides: Sequence[Sequence[Record]]) -> dict[Key, Noise]:
    """How far each measure strays between runs of the same thing; empty where no side has two.

    Few runs tell little of a single measure, so its variance is drawn half-way to the mean of all measures. What makes one
    measure stray makes the others stray too, so all of them together are worth no more than as many runs again.
    """
    keys = dict.fromkeys(one.key for side in sides for run in side for one in run.measures)
    grouped = {key: [middles for side in sides if len(middles := _centres(side, key)) > 1] for key in keys}
    own = {key: _strayed(groups) for key, groups in grouped.items() if groups}
    if not own:
        return {}
    common = statistics.fmean(own.values())
    freedom = {key: sum(len(middles) - 1 for middles in grouped[key]) for key in own}
    if len(own) == 1:
        return {key: Noise(variance, freedom[key]) for key, variance in own.items()}
    return {key: Noise((variance + common) / 2, 2 * freedom[key]) for key, variance in own.items()}


def _strayed(groups: Sequence[Sequence[Centre]]) -> float:
    """The variance of runs, each group about its own mean, that their samples do not explain."""
    freedom = sum(len(group) - 1 for group in groups)
    between = sum(statistics.variance(one.mean for one in group) * (len(group) - 1) for group in groups) / freedom
    return max(0.0, between - statistics.fmean(one.variance for group in groups for one in group))


def _unlike(one: Record, other: Record) -> list[str]:
    """What forbids a comparison."""
    pairs: Mapping[str, tuple[object, object]] = {
        "bench": (one.bench, other.bench),
        **{name: (_part(one.machine, name), _part(other.machine, name)) for name in ("cpu", "cores", "accelerator")},
        "memory in GB": (_gigabytes(one), _gigabytes(other)),
        **{
            f"model's {name}": (_part(one.model, name), _part(other.model, name))
            for name in ("alias", "sha256", "dtype", "backend")
        },
    }
    return [f"{name} {a} against {b}" for name, (a, b) in pairs.items() if a != b]


def _gigabytes(one: Record) -> int | None:
    return None if one.machine.memory is None else round(one.machine.memory / 1e9)


def _told(one: Record, other: Record) -> list[str]:
    """What differs and may."""
    loads = [record.machine.load for record in (one, other)]
    pairs: dict[str, tuple[object, object]] = {
        "commit": (one.commit, other.commit),
        "system": (one.machine.system, other.machine.system),
        **_pairs(one.machine.versions, other.machine.versions),
        **_pairs(one.settings, other.settings),
    }
    told = [f"{name}: {a} -> {b}" for name, (a, b) in pairs.items() if a != b]
    busy = [f"the machine was busy: load a core {load}" for load in loads if load is not None and load > BUSY]
    return [*told, *dict.fromkeys(busy)]


def _pairs(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    return {name: (one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])}


def _part(whole: object | None, name: str) -> object:
    return getattr(whole, name, None)
