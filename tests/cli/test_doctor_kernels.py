"""`nightschool doctor --kernels`: a table, or JSON, and an exit code that tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from nightschool.kernels import check
from nightschool.kernels.check import Case, Kernel, Measured, Report

CASES = [Case(5003, 1, sampling, mask, "float32") for sampling in check.SAMPLINGS for mask in check.MASKS]


def report(differing: int = 0, broken: str | None = None) -> Report:
    kernels = [
        Kernel("reference", "cpu", None),
        Kernel("torch", "cpu", None, broken),
        Kernel("metal", "gpu", "only on a Mac"),
    ]
    measured = [
        Measured(name, case, differing * (name == "torch"), 0.0, 1234.4)
        for case in CASES
        for name in ("reference", "torch")
    ]
    return Report(kernels, measured, 1.5)


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Callable[[Report], None]:
    def found(report: Report) -> None:
        monkeypatch.setattr(check, "run", lambda tell: tell("vocabulary 5003, batch 1") or report)

    return found


def test_a_table_of_kernels_and_times(run: Any, find: Any) -> None:
    find(report())
    ran = run("doctor", "--kernels")
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "reference cpu is the specification" in lines
    assert "torch cpu agrees in 9 cases; log probabilities within 0e+00" in lines
    assert "metal gpu cannot run here: only on a Mac" in lines
    assert lines.count("torch 5003 1 float32" + " 1234" * 3) == 2
    assert "microseconds, median; a few tokens are allowed" in lines
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "vocabulary 5003" in ran.err


def test_each_row_of_times_has_one_dtype_and_fits_a_page(run: Any, find: Any) -> None:
    measured = [
        Measured("torch on cuda", Case(151_936, 32, sampling, mask, dtype), 0, 0.0, 1_234_567.0)
        for sampling in check.SAMPLINGS
        for mask in check.MASKS
        for dtype in check.DTYPES
    ]
    find(Report([Kernel("torch on cuda", "cuda", None, "Error: " + "no " * 90)], measured, 1.5))
    out = run("doctor", "--kernels").out
    for dtype in check.DTYPES:
        assert out.count(f"  {dtype}") == 2
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("wrong", [{"differing": 1}, {"broken": "RuntimeError: no"}])
def test_a_kernel_that_is_wrong_exits_1(run: Any, find: Any, wrong: dict[str, Any]) -> None:
    find(report(**wrong))
    ran = run("doctor", "--kernels")
    assert ran.code == 1
    assert ("differs in 9 of 9 cases" if "differing" in wrong else "breaks: RuntimeError: no") in ran.out


def test_json_holds_everything(run: Any, find: Any) -> None:
    find(report())
    record = json.loads(run("doctor", "--kernels", "--json").out)
    assert record["agrees"] is True
    assert len(record["measured"]) == 18
    assert record["kernels"][2] == {"name": "metal", "device": "gpu", "missing": "only on a Mac", "broken": None}
