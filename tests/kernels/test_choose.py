"""Which kernel a device gets, and how the kernels of a machine are checked."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nightschool.disk.errors import Problem
from nightschool.kernels import check, metal, mlx_ops, reference, torch_ops
from nightschool.kernels.check import Case, Given, Measured
from nightschool.kernels.choose import choose
from nightschool.kernels.implementations import Implementation, implementations
from nightschool.kernels.reference import NOTHING, Rows, Sampled

SMALL = [Case(300, 2, sampling, mask, "bfloat16") for sampling in check.SAMPLINGS for mask in check.MASKS]


def test_every_device_gets_its_kernel_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlx.core.metal.is_available", lambda: True)
    chosen = {device: choose(device)[0] for device in ("numpy", "cpu", "mps", "mlx-cpu", "mlx-gpu")}
    assert chosen == {
        "numpy": reference.sample,
        "cpu": torch_ops.sample,
        "mps": torch_ops.sample,
        "mlx-cpu": mlx_ops.draw,
        "mlx-gpu": metal.draw,
    }
    assert len({choose(device)[1] for device in chosen}) == len(chosen)


def test_a_gpu_that_is_not_apples_gets_mlx_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlx.core.metal.is_available", lambda: False)
    assert choose("mlx-gpu")[0] is mlx_ops.draw


def test_cuda_is_triton_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nightschool.kernels.triton_ops", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    kernel, reason = choose("cuda:1")
    assert kernel is torch_ops.sample
    assert "Triton" in reason
    monkeypatch.undo()
    if importlib.util.find_spec("triton") is not None:
        assert choose("cuda:1")[0].__module__ == "nightschool.kernels.triton_ops"


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(Problem, match="cuda"):
        choose("cudaa")


def test_a_check_says_of_every_kernel_whether_it_agrees_or_why_it_cannot_run() -> None:
    steps: list[str] = []
    report = check.run(steps.append, SMALL)
    assert report.agrees
    assert steps == ["vocabulary 300, batch 2"] * len(SMALL)
    names = {kernel.name for kernel in report.kernels}
    assert {"reference", "torch", "mlx", "metal", "triton"} <= names
    ran = {measured.kernel for measured in report.measured}
    assert ran == {kernel.name for kernel in report.kernels if kernel.missing is None} >= {"reference", "torch", "mlx"}
    assert len(report.measured) == len(ran) * len(SMALL)
    assert all(measured.microseconds > 0 for measured in report.measured)
    told = report.as_json()
    assert told["agrees"] is True
    assert told["measured"][0]["case"] == {
        "width": 300, "batch": 2, "sampling": "greedy", "mask": "none", "dtype": "bfloat16",
    }  # fmt: skip


def test_the_cases_cover_every_shape_sampling_mask_and_dtype() -> None:
    cases = list(check.cases())
    assert len(cases) == len(set(cases)) == 81
    for name, all_of_it in (("width", check.WIDTHS), ("batch", check.BATCHES), ("dtype", check.DTYPES)):
        assert {getattr(case, name) for case in cases} == set(all_of_it)
    shapes = {(case.width, case.batch): case.dtype for case in cases}
    assert all(case.dtype == shapes[case.width, case.batch] for case in cases)
    for case in SMALL:
        given = check.make(case)
        assert torch.equal(torch.from_numpy(given.logits).bfloat16().float(), torch.from_numpy(given.logits))


@pytest.mark.parametrize("wrong", ["id", "logprob", "crash"])
def test_a_check_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    def spoiled(*arguments: Any) -> Sampled:
        found = torch_ops.sample(*arguments)
        if wrong == "crash":
            raise RuntimeError("no\nsuch thing")
        if wrong == "id":
            return replace(found, ids=(found.ids + 1) % 290)
        return replace(found, logprobs=found.logprobs + np.float32(0.01))

    def listed() -> Iterator[Implementation]:
        first = next(implementations())
        yield first
        yield replace(first, name="spoiled", sample=spoiled)

    monkeypatch.setattr(check, "implementations", listed)
    report = check.run(chosen=SMALL)
    assert not report.agrees
    assert all(measured.agrees for measured in report.measured if measured.kernel != "spoiled")
    assert not any(measured.agrees for measured in report.measured if measured.kernel == "spoiled")
    assert report.kernels[-1].broken == ("RuntimeError: no such thing" if wrong == "crash" else None)


def test_only_scores_a_rounding_apart_may_swap() -> None:
    rows = Rows.of([(1.0, 0, 1.0, 5, 2), (1.0, 0, 1.0, 5, 3), (0.0, 0, 1.0, 0, 0), (1.0, 1, 1.0, 5, 4)])
    noise = np.stack([reference.gumbel(5, position, 3) for position in (2, 3, 0, 4)])
    logits = -noise
    logits[0, :2] += 4, 4 + 1e-6
    logits[1, :2] += 4, 4 + 1e-3
    given = Given(logits, None, rows, 3)
    want = Sampled(np.array([1, 1, 1, int(logits[3].argmax())]), np.zeros(4, np.float32))
    other = Sampled(np.array([0, 0, 0, NOTHING]), np.zeros(4, np.float32))
    assert check.differing(given, other, want) == [1, 2, 3]
    assert check.differing(given, want, want) == []


def test_a_measured_case_agrees_only_in_both() -> None:
    good = Measured("x", SMALL[0], 0, 0.0, 1.0)
    assert good.agrees
    assert not replace(good, differing=1).agrees
    assert not replace(good, logprob_difference=0.1).agrees
