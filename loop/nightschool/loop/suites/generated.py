"""Suites that are written by code: one seed, one suite; a fresh seed is a suite that nobody has seen.

A shipped suite with fixed answers can be tuned against, and a model may have met it in training. A generated
one cannot: its facts or rules are drawn by the seed, so a score on a fresh seed is what the night taught.

    runbook   what a team knows and no model can: experience is remembered and used
    style     house rules of form that are never told: what was learned carries over to new questions

Writing the files is left to the workspace.
"""

from collections.abc import Callable

from nightschool.loop.suites import runbook, style
from nightschool.loop.suites.suite_files import SuiteFiles, Task

__all__ = ["GENERATORS", "SuiteFiles", "Task"]

GENERATORS: dict[str, Callable[[int], SuiteFiles]] = {"runbook": runbook.generate, "style": style.generate}
