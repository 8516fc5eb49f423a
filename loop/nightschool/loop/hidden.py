"""What must stay unseen: the questions of val and test, and whether a text tells of one.

A question is known in full, and in the short form in which pages and skills quote a long one (excerpts.shrink). Short
questions stand in other texts by chance and are not looked for.
"""

from __future__ import annotations

from nightschool.loop import excerpts
from nightschool.loop.answers import normalise
from nightschool.loop.suite import Suite, Task

SHORTEST_QUESTION = 8
"""Characters of a question that is too long to stand in another text by chance."""


class Hidden:
    """The hidden questions of one suite."""

    def __init__(self, suite: Suite) -> None:
        """Nothing is looked for yet."""
        splits = [(split, task) for split in ("val", "test") for task in suite.split(split)]
        questions = [(split, task, normalise(task.prompt)) for split, task in splits]
        self._questions = [item for item in questions if len(item[2]) >= SHORTEST_QUESTION]
        self._found: dict[str, tuple[str, Task] | None] = {}

    def told(self, text: str) -> tuple[str, Task] | None:
        """The split and the task of which a text tells, or None; a text is searched once."""
        if text not in self._found:
            self._found[text] = self._search(text)
        return self._found[text]

    def _search(self, text: str) -> tuple[str, Task] | None:
        plain, cuts = normalise(text), sorted({int(cut.replace(",", "")) for cut in excerpts.MARK.findall(text)})
        for split, task, question in self._questions:
            if question in plain or (cuts and any(normalise(short) in plain for short in _short(task.prompt, cuts))):
                return split, task
        return None


def _short(question: str, cuts: list[int]) -> list[str]:
    """The question as it is quoted when so many characters of it are left out."""
    return [
        excerpts.cut(one, len(one) - left) for one in {question, question.strip()} for left in cuts if left < len(one)
    ]
