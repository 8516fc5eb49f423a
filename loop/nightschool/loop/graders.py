"""Graders: what a right answer is, as data; a score in [0, 1] and a reason that one can learn from.

A grader is one JSON object, `{"kind": "contains", "expected": "7443"}`, in a task's line and in code a frozen model of
its kind. `grade` never raises for an answer, and a blank one scores 0. Reading text is left to `answers`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, Field, JsonValue, PlainValidator, model_validator

from nightschool.loop import patterns, schemas
from nightschool.loop.answers import canonical, last_named, last_number, normalise, parse_json, quoted
from nightschool.loop.checks import Check
from nightschool.loop.patterns import Pattern
from nightschool.loop.strict import Filled, Strict

MAX_ANSWER = 20_000
"""Characters. A longer answer scores 0 unread: no text may hold up the night."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A score in [0, 1], and one line: what was missing, or that nothing was."""

    score: float
    reason: str
    rules: tuple[str, ...] = ()
    """Of what was missing, whatever holds for other answers too: it tells of no one answer."""


PASSED = Grade(1.0, "as expected")


def missed(expected: str, answer: str) -> Grade:
    """The usual reason for no points."""
    return Grade(0.0, f"expected {quoted(expected)}; got {quoted(answer)}")


class Exact(Strict):
    """The whole answer, in normal form."""

    kind: Literal["exact"]
    expected: Filled

    def verdict(self, answer: str) -> Grade:
        """Equal or not."""
        return PASSED if normalise(answer) == normalise(self.expected) else missed(self.expected, answer)


class Contains(Strict):
    """The expected text occurs somewhere in the answer, in normal form."""

    kind: Literal["contains"]
    expected: Filled

    def verdict(self, answer: str) -> Grade:
        """There or not."""
        return PASSED if normalise(self.expected) in normalise(answer) else missed(self.expected, answer)


def _finite(value: Any) -> int | float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"must be a finite number, not {value!r}")
    return cast(int | float, value)


class Number(Strict):
    """The last number in the answer, within a tolerance."""

    kind: Literal["number"]
    expected: Annotated[int | float, PlainValidator(_finite)]
    tolerance: float = Field(default=0.0, ge=0)

    def verdict(self, answer: str) -> Grade:
        """Near enough or not, in decimal: 1.1 is within 0.1 of 1."""
        number = last_number(answer)
        if number is None:
            return Grade(0.0, f"expected the number {quoted(str(self.expected))}; found none in {quoted(answer)}")
        if number == (exact := Decimal(str(self.expected))):
            return PASSED
        margin = Decimal(str(self.tolerance))
        if exact - margin <= number <= exact + margin and margin:
            return PASSED
        within = f" within {self.tolerance:g}" if self.tolerance else ""
        return Grade(0.0, f"expected {quoted(str(self.expected))}{within}; got {quoted(str(number))}")


class Regex(Strict):
    """A pattern that occurs in the answer; `expected` is an answer in which it does."""

    kind: Literal["regex"]
    pattern: Pattern
    expected: Filled

    def verdict(self, answer: str) -> Grade:
        """Found or not; a search that takes too long finds nothing."""
        match patterns.found(self.pattern, answer):
            case None:
                return Grade(0.0, f"took too long to search for {quoted(self.pattern)}")
            case False:
                return Grade(0.0, f"expected something like {quoted(self.expected)}; got {quoted(answer)}")
        return PASSED


class Choice(Strict):
    """One of several options; the one that the answer names last counts."""

    kind: Literal["choice"]
    options: Annotated[tuple[Filled, ...], Field(strict=False, min_length=2)]
    expected: Filled

    @model_validator(mode="after")
    def _expected_is_an_option(self) -> Self:
        if self.expected not in self.options:
            raise ValueError(f"expected {self.expected!r} is not one of the options")
        if len({normalise(option) for option in self.options}) < len(self.options):
            raise ValueError("two options are equal")
        return self

    def verdict(self, answer: str) -> Grade:
        """The right option or another."""
        named = last_named(answer, self.options)
        if named is None:
            options = ", ".join(quoted(option) for option in self.options)
            return Grade(0.0, f"expected {quoted(self.expected)}; the answer names none of {options}")
        return PASSED if named == self.expected else missed(self.expected, named)


class Json(Strict):
    """The answer as JSON: equal to `expected`, or, where there is a `schema`, of its form."""

    kind: Literal["json"]
    expected: JsonValue
    form: Annotated[dict[str, Any], AfterValidator(schemas.check)] | None = Field(
        default=None, validation_alias="schema", serialization_alias="schema"
    )
    ordered: bool = False

    @model_validator(mode="after")
    def _expected_has_the_form(self) -> Self:
        if self.form is not None and (fault := schemas.fault(self.form, self.expected)):
            raise ValueError(f"expected does not fit the schema: {fault}")
        return self

    def verdict(self, answer: str) -> Grade:
        """Parsed and compared; the order of keys, and of lists unless `ordered`, does not count."""
        try:
            value = parse_json(answer)
            fault = self._fault(value)
        except (ValueError, RecursionError):
            return Grade(0.0, f"expected JSON; got {quoted(answer)}")
        return PASSED if fault is None else Grade(0.0, fault, self._wrong_keys(value))

    def _fault(self, value: Any) -> str | None:
        if self.form is not None:
            return schemas.fault(self.form, value)
        if self._same(value, self.expected):
            return None
        if not (isinstance(value, dict) and isinstance(self.expected, dict)):
            return f"expected {quoted(_json(self.expected))}; got {quoted(_json(value))}"
        wrong = [
            *self._wrong_keys(value),
            *(
                f"{quoted(key)} should be {quoted(_json(item))}, not {quoted(_json(value[key]))}"
                for key, item in self.expected.items()
                if key in value and not self._same(value[key], item)
            ),
        ]
        return "; ".join(wrong)

    def _wrong_keys(self, value: Any) -> tuple[str, ...]:
        """Keys that are missing or should not be there; under a `schema` the expected keys are one example of many."""
        if self.form is not None or not (isinstance(value, dict) and isinstance(self.expected, dict)):
            return ()
        missing = [f"{quoted(key)} is missing" for key in self.expected if key not in value]
        return (*missing, *(f"{quoted(key)} should not be there" for key in value if key not in self.expected))

    def _same(self, one: Any, other: Any) -> bool:
        return canonical(one, ordered=self.ordered) == canonical(other, ordered=self.ordered)


class Checks(Strict):
    """Several checks; the score is the share that pass. `expected` is an answer that passes all."""

    kind: Literal["checks"]
    checks: Annotated[tuple[Check, ...], Field(strict=False, min_length=1)]
    expected: Filled

    def verdict(self, answer: str) -> Grade:
        """The share that pass, and the reasons of those that do not."""
        failed = [(failure, check.rule) for check in self.checks if (failure := check.failure(answer))]
        if not failed:
            return PASSED
        reason, rules = "; ".join(failure for failure, _ in failed), tuple(dict.fromkeys(rule for _, rule in failed))
        return Grade(1 - len(failed) / len(self.checks), reason, rules)


Grader = Annotated[Exact | Contains | Number | Regex | Choice | Json | Checks, Field(discriminator="kind")]


class _Holder(Strict):
    grader: Grader


def parse_grader(data: object, where: str = "task") -> Grader:
    """A grader from its JSON object; a Problem that opens with `where` when it is none."""
    return _Holder.parse({"grader": data}, where).grader


def dump_grader(grader: Grader) -> dict[str, Any]:
    """The JSON object from which `parse_grader` makes this grader again."""
    return grader.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def grade(grader: Grader, answer: str) -> Grade:
    """Score an answer. Any text is an answer: none of them raises."""
    if not normalise(answer[:MAX_ANSWER]):
        return Grade(0.0, "the answer is empty")
    if len(answer) > MAX_ANSWER:
        return Grade(0.0, f"the answer is longer than {MAX_ANSWER:,} characters")
    return grader.verdict(answer)


def reference(grader: Grader) -> str:
    """The expected answer, as an example shows it."""
    return _json(grader.expected) if isinstance(grader, Json) else str(grader.expected)


def steps(grader: Grader) -> int:
    """In how many equal steps a score goes from 0 to 1."""
    return len(grader.checks) if isinstance(grader, Checks) else 1


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
