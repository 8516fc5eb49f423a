"""Whether skills leave every task its room in the student's context, asked for each candidate of a night.

A task's own tokens are counted once a night, so that a candidate is settled by one count where there is room enough.
"""

from __future__ import annotations

from functools import cached_property

from nightschool.loop import inject
from nightschool.loop.crew import Crew
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.skills import SkillSet
from nightschool.loop.student import needed_tokens, reply_tokens, system_prompt, task_prompt, toolbox
from nightschool.loop.suite import Suite, Task

SEAM = 16
"""What a template may add where a system prompt and a question meet."""


class Room:
    """The student's context, as the tasks of one suite fill it."""

    def __init__(self, suite: Suite, crew: Crew, settings: EvolveSettings) -> None:
        """Nothing is counted yet."""
        self._suite, self._crew, self._settings = suite, crew, settings

    def too_long(self, candidate: SkillSet) -> str | None:
        """Why these skills would not fit; None when they fit."""
        meter = self._crew.meter("student")
        if meter.system(system_prompt(self._suite, candidate)) + self._longest + SEAM <= meter.context:
            return None
        needed = max(self._needed(candidate, task) for task in self._suite.tasks)
        if needed <= meter.context:
            return None
        return f"with it the skills and the longest task need {needed} tokens, and the context has {meter.context}"

    @cached_property
    def _longest(self) -> int:
        """Tokens of the longest question by itself, with its reply."""
        meter = self._crew.meter("student")
        return max(
            meter.text(task_prompt(task, box)) + reply_tokens(self._suite, box, meter, think=self._settings.think)
            for task in self._suite.tasks
            for box in (toolbox(self._suite, task),)
        )

    def _needed(self, candidate: SkillSet, task: Task) -> int:
        given = inject.chosen(candidate, task.prompt, self._settings.inject)
        return needed_tokens(self._suite, given, task, self._crew.meter("student"), think=self._settings.think)
