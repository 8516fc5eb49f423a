"""Settings of a night: the `[evolve]` table of suite.toml, and flags of the same names.

The flag wins over the table, the table over these defaults. What a setting does is told here, and done elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from nightschool.loop.gate import GATES
from nightschool.loop.strict import Strict, unknown


def _known_gate(name: str) -> str:
    if name not in GATES:
        raise unknown("gate", name, GATES)
    return name


INJECTIONS = ("full", "routed")


def _known_injection(name: str) -> str:
    if name not in INJECTIONS:
        raise unknown("way to inject skills", name, INJECTIONS)
    return name


SHOWN = 31
"""Both kinds of traces together stay below the 63 ids among which a grammar can tell that none is cited twice."""

Count = Annotated[int, Field(ge=1, le=10_000)]
Temperature = Annotated[float, Field(ge=0, le=2)]


class EvolveSettings(Strict):
    """How a night is run. In suite.toml `passing` is spelled `pass`, which Python keeps for itself."""

    iterations: Count = Field(
        default=8, description="rounds of study, proposal and gate; a night ends earlier at a val score of 1"
    )
    gate: Annotated[str, AfterValidator(_known_gate)] = Field(
        default="strict",
        description="when a candidate is kept: strict (better), sure (better, and not by luck), tie (not worse), "
        "confirm (better twice)",
    )
    fail: int = Field(default=5, ge=0, le=SHOWN, description="failing traces that the maintainer sees, at most")
    passing: int = Field(
        default=3,
        ge=0,
        le=SHOWN,
        validation_alias="pass",
        description="passing traces that the maintainer sees, at most",
    )
    trace_chars: int = Field(
        default=15_000, ge=200, le=1_000_000, description="characters of a trace that is shown, at most"
    )
    min_reads: int = Field(default=4, ge=0, le=1000, description="traces that the proposer reads before it may propose")
    max_turns: Count = Field(default=12, description="turns of the proposer, at most")
    min_examples: int = Field(
        default=4,
        ge=0,
        le=8,
        description="examples that a new skill cites, at least (fewer if there are fewer)",
    )
    inject: Annotated[str, AfterValidator(_known_injection)] = Field(
        default="full",
        description="which skills a task's student reads: full (all of them), routed (those that speak of the task)",
    )
    test_wiki: bool = Field(
        default=False, description="let the student look into the wiki's pages, on the test split and nowhere else"
    )
    student_turns: Count = Field(default=8, description="turns of a student with tools, at most")
    student_temperature: Temperature = Field(default=0.0, description="sampling noise of the student; 0 is none")
    maintainer_temperature: Temperature = Field(default=0.7, description="sampling noise of the maintainer")
    proposer_temperature: Temperature = Field(default=0.7, description="sampling noise of the proposer")
    think: bool = Field(default=False, description="let the student think before it answers, if its model can")

    def student(self) -> dict[str, Any]:
        """The settings that change what a student answers: with other ones a baseline must be run again."""
        return self.model_dump(include={"student_turns", "student_temperature", "think", "inject"})
