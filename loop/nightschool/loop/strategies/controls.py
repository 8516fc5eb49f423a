"""Controls: nights that should gain nothing, so that a gain elsewhere means something.

`placebo` offers the gate a skill of the length that a real one would have, about something else. (`random` and
`shuffled` change the engine and the suite, `nowiki` is a switch of the strategy: nights.py.)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from importlib.resources import files as resources
from typing import TypeVar

from nightschool.engine.engine import Agent
from nightschool.engine.types import Completion, Request
from nightschool.loop import seeds, skills
from nightschool.loop.gate import Outcome
from nightschool.loop.skills import Example, Skill, SkillSet
from nightschool.loop.strategies.base import Change, Proposal, State, Study
from nightschool.loop.suite import Task
from nightschool.loop.traces import Trace

T = TypeVar("T")


class Placebo:
    """Studies nothing; proposes a skill about baking bread, as long as one with real examples."""

    def parent(self, state: State) -> SkillSet:
        """The skills that stand."""
        return state.skills

    def batch(self, state: State) -> Sequence[Task]:
        """Every train task."""
        return state.train

    def study(self, state: State, traces: Sequence[Trace]) -> Agent[Study]:
        """Nothing."""
        return _done(Study(log="(placebo: nothing is studied)"))

    def propose(self, state: State, traces: Sequence[Trace]) -> Agent[Proposal]:
        """A new skill of equal length about something else."""
        wanted = [trace for trace in traces if not trace.passed][: skills.MAX_EXAMPLES]
        length = sum(len(trace.prompt) + len(trace.expected) for trace in wanted) + 24 * len(wanted)
        name = f"bread-{state.k}"
        text = skills.render(
            name,
            description="How bread is baked. Use when the question is about bread.",
            when=["The question is about bread."],
            when_not=["The question is about anything else."],
            instructions=["Give the dough time."],
            examples=_bread(seeds.derive(state.seed, state.k, "placebo"), length),
            metadata={"scope": "general", "model": state.model, "suite": state.suite},
        )
        purpose = (
            f"# Purpose of {name}\n\n## Origin\nA placebo.\n\n## Patterns Addressed\n- none\n\n## Evolution History\n"
        )
        change = Change("create", Skill(name, text, purpose), "", f"placebo-{state.k}", "placebo")
        return _done(Proposal(change, "placebo"))

    def remember(self, state: State, outcome: Outcome) -> None:
        """Nothing."""


def _bread(seed: int, length: int) -> list[Example]:
    """Questions and answers in ordinary prose, until they are `length` characters."""
    text = resources("nightschool.loop.strategies").joinpath("bread.txt").read_text("utf-8")
    pairs = [tuple(line.split(" | ")) for line in text.strip().split("\n")]
    seeds.rng(seed).shuffle(pairs)
    chosen: list[Example] = []
    while pairs and sum(len(item.question) + len(item.answer) + 24 for item in chosen) < length:
        question, answer = pairs.pop()
        chosen.append(Example(question, answer))
    return chosen


def _done(value: T) -> Generator[Request, Completion, T]:
    """An agent that asks nothing."""
    return value
    yield
