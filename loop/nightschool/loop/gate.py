"""The gate: whether a candidate skill set replaces the one that stands. Plain arithmetic, no model.

Policies: `strict` (better than the best so far), `sure` (better, and on so many more tasks than it is worse that luck
seldom does it), `tie` (not worse), `confirm` (better, and again in a second run at temperature above 0 against the
standing skills run the same way). No policy eases the bar that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nightschool.disk.errors import Problem, nearest
from nightschool.loop import stats

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one iteration; `score` is None when nothing was proposed."""

    k: int
    action: str
    skill: str | None
    score: float | None
    accepted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Validation of a candidate: its score, the best before it, on how many tasks each is ahead, the confirming pair."""

    score: float
    best: float
    better: int = 0
    worse: int = 0
    confirmed: tuple[float, float] | None = None
    """(candidate, standing skills), both at temperature above 0."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Candidate:
        """From (standing score, candidate's score) of every val task."""
        before, after = zip(*pairs, strict=True)
        better = sum(new > old for old, new in pairs)
        return cls(stats.mean(after), stats.mean(before), better, sum(new < old for old, new in pairs))


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and its sentence."""

    accepted: bool
    reason: str


class Gate(Protocol):
    """One acceptance policy."""

    confirms: bool
    """Whether a promising candidate is run a second time before `decide`."""

    def decide(self, history: Sequence[Outcome], candidate: Candidate) -> Decision:
        """Accept or not, with the sentence that people read."""


class Strict:
    """Better than the best so far."""

    confirms = False

    def decide(self, history: Sequence[Outcome], candidate: Candidate) -> Decision:
        """Accept iff score > best."""
        accepted = candidate.score > candidate.best
        word = "above" if accepted else "not above"
        return Decision(accepted, f"val {candidate.score:.3f} is {word} the best so far, {candidate.best:.3f}")


class Sure:
    """Better than the best so far, and not by luck.

    One lucky answer of a few dozen is a better score, and no evidence; a night that tries many candidates meets it
    often. The one-sided sign test counts only tasks whose score changed, whatever its size.
    """

    confirms = False

    def decide(self, history: Sequence[Outcome], candidate: Candidate) -> Decision:
        """Accept iff score > best and luck alone would do as well for at most one of 20 candidates."""
        first = Strict().decide(history, candidate)
        if not first.accepted:
            return first
        p = stats.sign_test(candidate.better, candidate.worse)
        accepted = p <= ALPHA
        word = "not luck" if accepted else "may be luck"
        told = f"{candidate.better} tasks better, {candidate.worse} worse, p {p:.3f}: {word}"
        return Decision(accepted, f"{first.reason}; {told}")


class Tie:
    """Not worse than the best so far: neutral changes may compound later."""

    confirms = False

    def decide(self, history: Sequence[Outcome], candidate: Candidate) -> Decision:
        """Accept iff score >= best."""
        accepted = candidate.score >= candidate.best
        word = "at least" if accepted else "below"
        return Decision(accepted, f"val {candidate.score:.3f} is {word} the best so far, {candidate.best:.3f}")


class Confirm:
    """Better twice: on the usual run and on a fresh one with sampling noise."""

    confirms = True

    def decide(self, history: Sequence[Outcome], candidate: Candidate) -> Decision:
        """Accept iff score > best and the confirming run beats the standing skills too."""
        first = Strict().decide(history, candidate)
        if not first.accepted or candidate.confirmed is None:
            return Decision(False, first.reason)
        mine, standing = candidate.confirmed
        accepted = mine > standing
        word = "confirmed" if accepted else "not confirmed"
        return Decision(accepted, f"{first.reason}; {word} at temperature: {mine:.3f} against {standing:.3f}")


GATES: dict[str, type[Strict] | type[Sure] | type[Tie] | type[Confirm]] = {
    "strict": Strict,
    "sure": Sure,
    "tie": Tie,
    "confirm": Confirm,
}


def make_gate(name: str, *, student_temperature: float) -> Gate:
    """The policy of this name; `confirm` needs a student whose second run can differ."""
    if name not in GATES:
        raise Problem(f"unknown gate {name!r}", nearest(name, GATES))
    if name == "confirm" and student_temperature <= 0:
        raise Problem(
            "--gate confirm needs a student temperature above 0: a greedy second run would repeat the first",
            "set student_temperature in [evolve], or use --gate strict",
        )
    return GATES[name]()
