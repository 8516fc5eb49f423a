"""Whether skills leave every task its room in the student's context, asked for each candidate of a night.

A task's own tokens are counted once a night, so that a candidate is settled by one count where there is room enough.
"""

from __future__ import annotations

from functools import cached_property

from nightschool.loop.crew import Crew
from nightschool.loop.skills import SkillSet
from nightschool.loop.student import needed_tokens, reply_tokens, system_prompt, task_prompt
from nightschool.loop.suite import Suite

SEAM = 16
"""What a template may add where a system prompt and a question meet."""


class Room:
    """The student's context, as the tasks of one suite fill it."""

    def __init__(self, suite: Suite, crew: Crew, *, think: bool) -> None:
        """Nothing is counted yet."""
        self._suite, self._crew, self._think = suite, crew, think

    def too_long(self, candidate: SkillSet) -> str | None:
        """Why these skills would not fit; None when they fit."""
        meter = self._crew.meter("student")
        if meter.system(system_prompt(self._suite, candidate)) + self._longest + SEAM <= meter.context:
            return None
        needed = max(
            needed_tokens(self._suite, candidate, task, meter, think=self._think) for task in self._suite.tasks
        )
        if needed <= meter.context:
            return None
        return f"with it the skills and the longest task need {needed} tokens, and the context has {meter.context}"

    @cached_property
    def _longest(self) -> int:
        """Tokens of the longest question by itself, with its reply."""
        meter = self._crew.meter("student")
        return max(
            meter.text(task_prompt(task)) + reply_tokens(self._suite, task, meter, think=self._think)
            for task in self._suite.tasks
        )
