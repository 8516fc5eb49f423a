"""Checks: the parts of a `checks` grader. Each finds one fault in an answer, or none.

In JSON `{"kind": "contains", "text": "Risks", "reason": "name the risks"}`; without `reason` it has words of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import Field

from nightschool.loop import patterns
from nightschool.loop.answers import normalise, quoted, section
from nightschool.loop.patterns import Pattern
from nightschool.loop.strict import Filled, Line, Strict


class _Check(Strict):
    reason: Line | None = None

    def failure(self, answer: str) -> str | None:
        """Why the answer fails this check, in its author's words if there are any; None when it passes."""
        fault = self._fault(answer)
        return fault and (self.reason or fault)

    @property
    def rule(self) -> str:
        """What the check asks of every answer, in its author's words if there are any."""
        return self.reason or self._asks()

    @abstractmethod
    def _fault(self, answer: str) -> str | None: ...

    @abstractmethod
    def _asks(self) -> str: ...


class ContainsCheck(_Check):
    """The text occurs, in normal form."""

    kind: Literal["contains"]
    text: Filled

    def _fault(self, answer: str) -> str | None:
        return None if normalise(self.text) in normalise(answer) else self._asks()

    def _asks(self) -> str:
        return f"must contain {quoted(self.text)}"


class AbsentCheck(_Check):
    """The text does not occur, in normal form."""

    kind: Literal["absent"]
    text: Filled

    def _fault(self, answer: str) -> str | None:
        return self._asks() if normalise(self.text) in normalise(answer) else None

    def _asks(self) -> str:
        return f"must not contain {quoted(self.text)}"


class RegexCheck(_Check):
    """The pattern occurs."""

    kind: Literal["regex"]
    pattern: Pattern

    def _fault(self, answer: str) -> str | None:
        match patterns.found(self.pattern, answer):
            case None:
                return f"took too long to search for {quoted(self.pattern)}"
            case False:
                return self._asks()
        return None

    def _asks(self) -> str:
        return f"must match {quoted(self.pattern)}"


class MaxCharsCheck(_Check):
    """The answer is no longer than this, white space around it aside."""

    kind: Literal["max_chars"]
    limit: int = Field(ge=1)

    def _fault(self, answer: str) -> str | None:
        length = len(answer.strip())
        return f"{self._asks()}, not {length:,}" if length > self.limit else None

    def _asks(self) -> str:
        return f"must have at most {self.limit:,} characters"


class SectionCheck(_Check):
    """There is a Markdown heading with this title, and something under it."""

    kind: Literal["section"]
    title: Line

    def _fault(self, answer: str) -> str | None:
        match section(answer, self.title):
            case None:
                return self._asks()
            case "":
                return f"the section {quoted(self.title)} is empty"
        return None

    def _asks(self) -> str:
        return f"must have a section {quoted(self.title)}"


Check = Annotated[ContainsCheck | AbsentCheck | RegexCheck | MaxCharsCheck | SectionCheck, Field(discriminator="kind")]
