"""`nightschool doctor --kernels`: the sampling kernels of this machine, whether they agree, and how fast they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from nightschool.cli import output

if TYPE_CHECKING:
    from nightschool.kernels.check import Kernel, Measured, Report

SPECIFICATION = "reference"
COLUMNS = ("greedy", "temperature", "top-k, top-p")


def check_kernels(as_json: bool) -> None:
    """Try them all; exit code 1 where one differs from the specification or breaks."""
    from nightschool.kernels import check

    with output.telling() as progress:
        report = check.run(lambda step: progress(step, 0, None))
    if as_json:
        output.data(report.as_json())
    else:
        _show(report)
    if not report.agrees:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    rows = [_verdict(kernel, [m for m in report.measured if m.kernel == kernel.name]) for kernel in report.kernels]
    output.table(("kernel", "device", "against the specification"), rows)
    print()
    order = [kernel.name for kernel in report.kernels]
    shapes = {(order.index(m.kernel), m.case.width, m.case.batch) for m in report.measured}
    masked = [f"{name}, few allowed" for name in COLUMNS]
    columns = ("kernel", "vocabulary", "batch", *COLUMNS, *masked)
    times = [_times(report, order[kernel], width, batch) for kernel, width, batch in sorted(shapes)]
    output.table(columns, times, title="microseconds, median; float32, float16 and bfloat16 take turns")


def _verdict(kernel: Kernel, measured: Sequence[Measured]) -> tuple[str, str, str]:
    if kernel.missing:
        return kernel.name, kernel.device, f"cannot run here: {kernel.missing}"
    if kernel.broken:
        return kernel.name, kernel.device, f"breaks: {kernel.broken}"
    if kernel.name == SPECIFICATION:
        return kernel.name, kernel.device, "is the specification"
    worst = max((m.logprob_difference for m in measured), default=0.0)
    wrong = [m for m in measured if not m.agrees]
    told = f"agrees in {len(measured)} cases" if not wrong else f"differs in {len(wrong)} of {len(measured)} cases"
    return kernel.name, kernel.device, f"{told}; log probabilities within {worst:.0e}"


def _times(report: Report, kernel: str, width: int, batch: int) -> list[str]:
    found = {
        (m.case.mask, m.case.sampling): m.microseconds
        for m in report.measured
        if (m.kernel, m.case.width, m.case.batch) == (kernel, width, batch)
    }
    cells = [found.get((mask, sampling)) for mask in ("none", "tiny") for sampling in COLUMNS]
    return [kernel, str(width), str(batch), *("-" if cell is None else f"{cell:.0f}" for cell in cells)]
