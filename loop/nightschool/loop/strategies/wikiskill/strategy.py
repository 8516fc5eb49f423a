"""The WikiSkill strategy (Tang et al. 2026, arXiv 2608.27454): all train tasks, one maintainer call, one ReAct proposer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nightschool.engine.engine import Agent
from nightschool.loop import seeds
from nightschool.loop.gate import Outcome
from nightschool.loop.skills import SkillSet
from nightschool.loop.strategies.base import Proposal, State, Study
from nightschool.loop.strategies.wikiskill import maintainer, proposer
from nightschool.loop.suite import Task
from nightschool.loop.traces import Trace
from nightschool.loop.wiki import Wiki


class WikiSkill:
    """Traces -> wiki -> skills. `wiki=False` is the control in which the proposer sees traces only."""

    def __init__(self, *, wiki: bool = True) -> None:
        """Keep the wiki, or not."""
        self._wiki = wiki

    def parent(self, state: State) -> SkillSet:
        """The skills that stand."""
        return state.skills

    def batch(self, state: State) -> Sequence[Task]:
        """Every train task."""
        return state.train

    def study(self, state: State, traces: Sequence[Trace]) -> Agent[Study]:
        """One maintainer call on a stratified sample."""
        if not self._wiki:
            return Study(log="(no wiki in this control)")
        sampled = maintainer.sample(
            traces,
            state.wiki,
            fails=state.settings.fail,
            passes=state.settings.passing,
            seed=seeds.derive(state.seed, state.k, "sample"),
        )
        return (yield from maintainer.study(state, sampled))

    def propose(self, state: State, traces: Sequence[Trace]) -> Agent[Proposal]:
        """ReAct over the wiki and the traces, then one change."""
        if not self._wiki:
            state = replace(state, wiki=Wiki(), impact="")
        return (yield from proposer.propose(state, traces))

    def remember(self, state: State, outcome: Outcome) -> None:
        """Nothing of its own: the wiki remembers."""
