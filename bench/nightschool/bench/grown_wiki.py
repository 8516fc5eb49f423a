"""Our own grammars over wikis of any size: what the maintainer and the proposer are held to when a wiki has grown.

A page has LINES lines that an edit may name, so a wiki of 10,000 target lines has 1,000 pages. Both roles build their
grammar as in a night, from a state of that size; what a maintainer is shown at once is bounded, and the proposer is
offered every file to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightschool.engine.grammar import Grammar
    from nightschool.loop.strategies.base import State
    from nightschool.loop.traces import Trace

LINES = 10
TASKS = 8
CONTEXT = 32_768


def state(targets: int) -> tuple[State, tuple[Trace, ...]]:
    """A state with a wiki of `targets` lines, and this iteration's traces."""
    from nightschool.loop import traces, wiki
    from nightschool.loop.graders import parse_grader
    from nightschool.loop.meter import Meter
    from nightschool.loop.settings import EvolveSettings
    from nightschool.loop.skills import SkillSet
    from nightschool.loop.strategies.base import State
    from nightschool.loop.suite import Task

    seen = tuple(_trace(number) for number in range(TASKS))
    pages = tuple(
        wiki.new_page(
            f"pattern-{number:05d}",
            kind="failure",
            scope="general",
            problem=[f"section {number} was not found"],
            root_cause=[f"the log of section {number} is rotated"],
            fix=[f"look at line {line} of section {number}" for line in range(LINES - 2)],
            evidence=[],
            iteration=1,
        )
        for number in range(max(targets // LINES, 1))
    )
    grader = parse_grader({"kind": "exact", "expected": "x"})
    meter = Meter(lambda messages: sum(len(message.content) // 4 + 4 for message in messages), CONTEXT)
    by_id = {traces.trace_id(2, "train", trace.task): trace for trace in seen}
    return State(
        k=2,
        train=tuple(Task(trace.task, trace.prompt, grader) for trace in seen),
        skills=SkillSet(),
        wiki=wiki.Wiki(pages),
        history=(),
        impact="",
        rejected=frozenset(),
        settings=EvolveSettings(),
        seed=0,
        suite="made",
        model="made",
        maintainer=meter,
        proposer=meter,
        trace=by_id.get,
        too_long=lambda skills: None,
    ), seen


def maintainer(state: State, seen: tuple[Trace, ...]) -> Grammar:
    """The maintainer's grammar over this state."""
    from nightschool.loop.strategies.wikiskill import maintainer

    return maintainer.grammar_for(maintainer.view_of(state, seen, CONTEXT // 3), first=False)


def proposer(state: State, seen: tuple[Trace, ...]) -> Grammar:
    """The proposer's grammar, when it may read on or finish."""
    from nightschool.loop.strategies.wikiskill import proposer
    from nightschool.loop.strategies.wikiskill.proposal import proposal_term

    books = proposer.library(state, seen, state.settings.trace_chars)
    return proposer.turn_grammar(books.unread(()), proposal_term(state, seen))


def _trace(number: int) -> Trace:
    from nightschool.loop.traces import Trace, trace_id

    name = f"train-{number:05d}"
    return Trace(
        id=trace_id(2, "train", name),
        task=name,
        prompt=f"What does line {number} say?",
        attempt=0,
        messages=(),
        steps=(),
        answer="no idea",
        expected=f"line {number}",
        score=0.0,
        reason="not what was expected",
        finish="stop",
        usage={},
        seed=0,
        model="made",
        skills_sha="",
    )
