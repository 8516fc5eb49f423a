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
    assert "torch 5003 1" + " 1234" * 6 in lines
    assert "vocabulary 5003" in ran.err


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
