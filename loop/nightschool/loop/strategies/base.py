"""A strategy is one way to improve a skill set; `evolve` calls these five methods and the gate.

`study` and `propose` are agents that change nothing: they return what should be written, and `evolve` journals and
writes it. Strategies know neither the disk nor the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nightschool.engine.engine import Agent
from nightschool.loop.gate import Outcome
from nightschool.loop.meter import Meter
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.skills import Skill, SkillSet
from nightschool.loop.suite import Task
from nightschool.loop.traces import Trace
from nightschool.loop.wiki import Page, Wiki


@dataclass(frozen=True, slots=True)
class State:
    """Everything a strategy may look at. Holds no val or test task, and no way to reach one."""

    k: int
    train: tuple[Task, ...]
    skills: SkillSet
    wiki: Wiki
    history: tuple[Outcome, ...]
    impact: str
    """The text of skill-impact.md."""
    rejected: frozenset[str]
    """Fingerprints of changes that the gate has rejected for this model."""
    settings: EvolveSettings
    seed: int
    suite: str
    model: str
    maintainer: Meter
    proposer: Meter
    trace: Callable[[str], Trace | None]
    """A train trace by its id, of this iteration or an older one; None when it is gone, or of another split."""
    too_long: Callable[[SkillSet], str | None]
    """Why these skills would not fit the student's context; None when they fit."""
    student: Meter | None = None
    """Counts as the student does, who reads the examples; None: count as the proposer does."""

    @property
    def reader(self) -> Meter:
        """Who counts what a skill holds."""
        return self.student or self.proposer


@dataclass(frozen=True, slots=True)
class Study:
    """What the maintainer learned: pages as they should stand, one log line, and counts for the journal."""

    pages: tuple[Page, ...] = ()
    log: str = ""
    edits: Mapping[str, int] = field(default_factory=dict)
    replies: Mapping[str, int] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Why replies went back."""


@dataclass(frozen=True, slots=True)
class Change:
    """One atomic change of one skill: the skill as it would stand, and what it stood as before (empty: new)."""

    action: str
    skill: Skill
    before: str
    fingerprint: str
    origin: str
    cites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change, or none and why; what was read first, and counts for the journal."""

    change: Change | None
    reason: str
    reads: tuple[str, ...] = ()
    edits: Mapping[str, int] = field(default_factory=dict)
    replies: Mapping[str, int] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Why replies went back."""


class Strategy(Protocol):
    """One way to improve a skill set."""

    def parent(self, state: State) -> SkillSet:
        """Whose child comes next."""

    def batch(self, state: State) -> Sequence[Task]:
        """Which train tasks to run."""

    def study(self, state: State, traces: Sequence[Trace]) -> Agent[Study]:
        """Traces become knowledge (the maintainer)."""

    def propose(self, state: State, traces: Sequence[Trace]) -> Agent[Proposal]:
        """Knowledge becomes one candidate (the proposer)."""

    def remember(self, state: State, outcome: Outcome) -> None:
        """Whatever came of it; told again when the night was killed before the outcome was settled."""
