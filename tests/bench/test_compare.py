"""A comparison says "no difference" where there is none, finds what is planted, and refuses what is not alike."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.bench import compare_view, kept, result
from nightschool.bench.compare import Comparison, compare
from nightschool.bench.result import Machine, Measure, Model, Record
from nightschool.bench.welch import cumulative, holm, quantile, ratio
from nightschool.disk.errors import Problem

MACHINE = Machine("Linux", "a cpu", 2, 8_000_000_000, None, 0.1, {"numpy": "2"})
MODEL = Model("tiny", "ab12", "float32", "transformers")
MEASURES = 8


def record(*measures: Measure, **changed: object) -> Record:
    made = Record("throughput", "2026-01-01T00:00:00Z", MACHINE, "c0ffee", MODEL, {"repeats": 5}, measures)
    return replace(made, **changed)  # type: ignore[arg-type]


def noisy(draw: random.Random, slower: float = 1.0, samples: int = 10, stray: float = 0.01) -> Record:
    """A run as a shared machine gives it: each figure strays with its run, its samples have 3% noise and a long tail."""
    measures = []
    for n in range(MEASURES):
        centre = (n + 1) * math.exp(draw.gauss(0, stray)) * (slower if n == 0 else 1)
        times = [
            centre * math.exp(draw.gauss(0, 0.03)) * (draw.uniform(1, 1.3) if draw.random() < 0.05 else 1)
            for _ in range(samples)
        ]
        measures.append(Measure(f"step{n}", "s", tuple(times)))
    return record(*measures, at=f"2026-01-01T00:00:{draw.randrange(60):02}Z")


def is_called_different(found: Comparison) -> bool:
    return not found.is_same


def trials(count: int, slower: float, history: int, samples: int) -> Iterator[Comparison]:
    draw = random.Random(history)
    for _ in range(count):
        runs = [noisy(draw, 1.0, samples) for _ in range(history)]
        yield compare(noisy(draw, 1.0, samples), noisy(draw, slower, samples), kept=runs)


@pytest.mark.parametrize("history", [0, 5])
def test_the_same_thing_twice_is_no_difference(history: int) -> None:
    """Of 200 records of eight figures each, at most one in twenty is called different: the family-wise rate."""
    assert sum(map(is_called_different, trials(200, 1.0, history, samples=5))) <= 10


@pytest.mark.parametrize("history", [0, 5])
def test_a_tenth_slower_is_found(history: int) -> None:
    found = trials(40, 1.1, history, samples=20)
    assert sum(any(one.measure.name == "step0" and one.regression for one in each.regressions) for each in found) >= 38


def test_runs_that_stray_make_the_floor_higher() -> None:
    draw = random.Random(3)
    calm, wild = ([noisy(draw, stray=stray) for _ in range(8)] for stray in (0.0, 0.2))
    assert max(one.floor or 0 for one in compare(*calm[:2], kept=calm).verdicts) < 0.05
    assert min(one.floor or 0 for one in compare(*wild[:2], kept=wild).verdicts) > 0.1
    assert sum(is_called_different(compare(a, b, kept=wild)) for a, b in pairwise(wild)) == 0


@pytest.mark.parametrize("better", ["higher", "lower", "neither"])
def test_which_way_is_worse(better: str) -> None:
    def one(at: float) -> Record:
        return record(Measure("pp512", "t/s", (at, at * 1.01, at * 0.99), better))  # type: ignore[arg-type]

    up, down = compare(one(100), one(120)).verdicts[0], compare(one(100), one(80)).verdicts[0]
    assert [up.kind, down.kind] == {
        "higher": ["better", "worse"],
        "lower": ["worse", "better"],
        "neither": ["differs", "differs"],
    }[better]
    assert [up.regression, down.regression] == [better == "lower", better == "higher"]
    assert up.low is not None and up.high is not None and up.low < 1.2 < up.high and up.low > 1


def test_a_worse_figure_within_the_threshold_is_no_regression() -> None:
    one, other = (record(Measure("x", "s", (at, at * 1.001, at * 0.999))) for at in (1.0, 1.04))
    runs = [replace(one, at=f"2026-01-0{day}T00:00:00Z") for day in range(2, 6)]
    found = compare(one, other, kept=runs)
    assert found.verdicts[0].kind == "worse" and not found.regressions
    assert compare(one, other, kept=runs, threshold=0.01).regressions
    assert compare(one, other).verdicts[0].kind == "same", "no floor: below the threshold is noise"


def test_counts_are_compared_exactly() -> None:
    one, other = (record(Measure("tokens", "tok", (at,))) for at in (100.0, 101.0))
    assert compare(one, one).verdicts[0].kind == "same"
    assert compare(one, other).verdicts[0].kind == "worse" and not compare(one, other).regressions
    assert compare(one, other, threshold=0.005).regressions


def test_what_cannot_be_told_is_unknown() -> None:
    one = record(Measure("a", "s", (1.0,)), Measure("b", "s", ()), Measure("c", "s", (1.0, 1.1)))
    other = record(Measure("a", "s", (2.0,)), Measure("b", "s", (1.0, 2.0)), Measure("d", "s", (1.0, 1.1)))
    found = compare(one, other)
    assert [verdict.kind for verdict in found.verdicts] == ["unknown", "unknown"]
    assert all(verdict.note for verdict in found.verdicts)
    assert (found.only_before, found.only_after) == (("c",), ("d",))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"bench": "l0"}, "bench"),
        ({"machine": replace(MACHINE, cpu="another")}, "cpu"),
        ({"machine": replace(MACHINE, memory=None)}, "memory"),
        ({"model": replace(MODEL, dtype="bfloat16")}, "dtype"),
        ({"model": replace(MODEL, sha256="other")}, "sha256"),
        ({"model": None}, "alias"),
        ({"measures": (Measure("else", "s", (1.0, 1.1)),)}, "in common"),
    ],
)
def test_only_like_is_compared_with_like(changed: dict[str, object], said: str) -> None:
    one = record(Measure("x", "s", (1.0, 1.1)))
    with pytest.raises(Problem, match=said):
        compare(one, replace(one, **changed))  # type: ignore[arg-type]


def test_on_a_busy_machine_only_other_runs_can_tell() -> None:
    draw = random.Random(5)
    busy = replace(MACHINE, load=2.0)
    one, slow, *runs = (replace(noisy(draw, slower), machine=busy) for slower in (1.0, 1.5, 1.0, 1.0, 1.0))
    found = compare(one, slow)
    assert found.is_same and {verdict.kind for verdict in found.verdicts} == {"unknown"}
    assert compare_view.told(found)[-1] == "nothing can be told"
    assert len(compare(one, slow, kept=runs).regressions) == 1


def test_what_may_differ_is_told() -> None:
    one = record(Measure("x", "s", (1.0, 1.1)))
    machine = replace(MACHINE, versions={"numpy": "3"}, load=0.9)
    found = compare(one, replace(one, commit="beef", machine=machine, settings={"repeats": 9}))
    assert all(any(word in line for line in found.differs) for word in ("commit", "numpy", "repeats", "busy"))
    assert any("busy" in line for line in compare_view.told(found))


def test_a_verdict_reads_as_one() -> None:
    draw = random.Random(4)
    same, slow = compare(noisy(draw), noisy(draw)), compare(noisy(draw), noisy(draw, 1.4))
    assert compare_view.told(same)[-1] == "no difference"
    assert compare_view.told(slow)[-1] == "1 regression beyond 5%"
    assert "REGRESSION" in {row[-1] for row in compare_view.table(slow).rows}


@given(
    a=st.lists(st.floats(0.001, 1e6), min_size=2, max_size=9),
    b=st.lists(st.floats(0.001, 1e6), min_size=2, max_size=9),
    scale=st.floats(0.01, 100),
)
def test_a_ratio_is_in_its_interval_and_has_no_unit(a: list[float], b: list[float], scale: float) -> None:
    one, turned = ratio(a, b), ratio(b, a)
    assert one is not None and turned is not None
    assert one.low <= one.ratio <= one.high and 0 <= one.p_value <= 1
    assert turned.ratio == pytest.approx(1 / one.ratio) and turned.p_value == pytest.approx(one.p_value, abs=1e-6)
    scaled = ratio([scale * x for x in a], [scale * x for x in b])
    assert scaled is not None and scaled.ratio == pytest.approx(one.ratio)


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (2, 4.303), (4.5, 2.659), (10, 2.228), (1e9, 1.960)])
def test_student_as_the_tables_have_it(freedom: float, expected: float) -> None:
    assert quantile(0.975, freedom) == pytest.approx(expected, abs=0.001)
    assert cumulative(-expected, freedom) == pytest.approx(0.025, abs=0.0001)
    assert cumulative(0.0, freedom) == pytest.approx(0.5)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, corrected, strict=True))
    if p_values:
        assert min(corrected) == min(1.0, len(p_values) * min(p_values))
        assert sorted(corrected) == [q for _, q in sorted(zip(p_values, corrected, strict=True))]


@pytest.fixture
def state(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return lambda **changed: result.save(record(Measure("x", "s", (1.0, 1.1)), **changed)).stem


def test_records_are_found_by_name(state: Callable[..., str]) -> None:
    first, second = state(), state(at="2026-02-01T00:00:00Z", bench="l0", model=None)
    torn = result.state_folder() / "20250101T000000Z-l0-0000.json"
    torn.write_text("{")
    assert [each.name for each in kept.every()] == [second, first, torn.stem]
    assert [each.name for each in kept.every(bench="l0") if each.record] == [second]
    assert [each.name for each in kept.every(model="tiny") if each.record] == [first]
    assert (
        kept.find("20260201").bench == "l0"
        and kept.find(str(result.state_folder() / f"{first}.json")).bench == "throughput"
    )
    for wrong, said in (("2026", "2 records"), ("nothing", "no record"), ("20250101", "no bench record")):
        with pytest.raises(Problem, match=said):
            kept.find(wrong)
