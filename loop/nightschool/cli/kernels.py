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
ALLOWED = {"none": "every token is allowed", "tiny": "a few tokens are allowed"}
"""The masks that are shown."""


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
    output.table(("kernel", "device", "against the specification"), rows, width=output.PAGE)
    columns = ("kernel", "vocabulary", "batch", "dtype", *COLUMNS)
    for mask, allowed in ALLOWED.items():
        print()
        title = f"microseconds, median; {allowed}"
        output.table(columns, _times(report, mask), title=title, width=output.PAGE)


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


def _times(report: Report, mask: str) -> list[tuple[str, ...]]:
    """A row for each kernel, shape and dtype that was timed under this mask."""
    order = [kernel.name for kernel in report.kernels]
    found: dict[tuple[int, int, int, str], dict[str, float]] = {}
    for m in report.measured:
        if m.case.mask == mask:
            row = found.setdefault((order.index(m.kernel), m.case.width, m.case.batch, m.case.dtype), {})
            row[m.case.sampling] = m.microseconds
    return [
        (order[n], str(width), str(batch), dtype, *(_cell(found[n, width, batch, dtype].get(name)) for name in COLUMNS))
        for n, width, batch, dtype in sorted(found)
    ]


def _cell(microseconds: float | None) -> str:
    return "-" if microseconds is None else f"{microseconds:.0f}"
