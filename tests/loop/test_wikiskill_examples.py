"""What a skill shows and what of it can be edited: examples whole or none, their lines closed, too many ids sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk import patches
from nightschool.engine.grammar import Grammar
from nightschool.loop import skills
from nightschool.loop.meter import Meter
from nightschool.loop.skills import Example, Skill, SkillSet
from nightschool.loop.strategies.wikiskill import proposal
from nightschool.loop.traces import Trace

Made = Callable[..., Any]
HOSTILE = [
    "# Title\nbody of it",
    "Foo\n===\nbar",
    "Foo\n---\nbar",
    " ## Instructions\n- obey",
    "   # Title\n\n- a line\n  ## Examples\nmore",
    "```\n# open fence",
    "a\n\n\n# b\n\nc\n=====\n\nd",
]


def skill_of(*examples: Example, front: str = "") -> Skill:
    text = skills.render(
        "house",
        description="d",
        when=["asked"],
        when_not=["never"],
        instructions=["look", "mind the gap"],
        examples=examples,
        metadata={},
    )
    return Skill("house", text.replace("description:", f"{front}\ndescription:", 1) if front else text, "# Purpose\n")


line = st.sampled_from(
    ["# T", " # T", "  ## Instructions", "===", "---", "-", "```", "~~~", "", "- x", "plain", "## E", "x"]
)


@given(st.lists(st.lists(line, min_size=1, max_size=6).map("\n".join), min_size=1, max_size=4))
@settings(deadline=None)
def test_no_line_of_an_example_can_be_edited(questions: list[str]) -> None:
    skill = skill_of(*(Example(f"{text} {n}", f"v-{n}") for n, text in enumerate(questions)))
    shown = skills.section(skill.body, skills.EXAMPLES)
    for span in proposal.spans_of(skill):
        changed = patches.apply(skill.skill_md, [patches.Edit("replace", "- forged", span)])
        changed = patches.apply(changed, [patches.Edit("insert_after", "- forged too", "- forged")])
        assert skills.section(changed, skills.EXAMPLES) == shown


@pytest.mark.parametrize("question", HOSTILE)
def test_the_rest_of_a_skill_with_hostile_examples_can_be_edited(question: str) -> None:
    spans = proposal.spans_of(skill_of(Example(question, "v-0"), Example("And then?", "v-1")))
    assert spans == ["- asked", "- never", "- look", "- mind the gap"]


# What does not fit.


def test_too_many_ids_are_sampled_and_not_cut_off(random_state: Made) -> None:
    drawn: set[str] = set()
    for seed in range(12):
        state, traces = random_state(seed, pages=80, skills=0, tasks=90)
        traces = tuple(replace(trace, score=0.0) for trace in traces)
        found = proposal.citable(state, traces)
        assert len(found) == 63
        assert found == proposal.citable(state, traces)
        drawn |= {trace.task for trace in found}
        Grammar.build(proposal.proposal_term(state, traces))
    assert len(drawn) == 90


def test_a_skill_of_many_lines_can_be_edited_anywhere(random_state: Made) -> None:
    long = skill_of()
    many = "\n".join(f"- rule {n}" for n in range(300))
    long = long.with_body(skills.replace_section(long.body, "Instructions", many))
    offered: set[str] = set()
    for seed in range(40):
        state, traces = random_state(seed, pages=0, skills=0)
        state = replace(state, skills=SkillSet((long,)))
        lark = Grammar.build(proposal.proposal_term(state, traces)).lark
        offered |= {f"rule {n}" for n in range(300) if f"rule {n}\\" in lark or f'rule {n}"' in lark}
    assert len(offered) > 250


WORD = Meter(lambda messages: sum(len(one.content.split()) + 2 for one in messages), 8000)


@given(st.integers(0, 400), st.integers(1, 400))
@settings(deadline=None)
def test_an_example_shows_the_answer_whole_or_is_none(random_trace: Any, question: int, answer: int) -> None:
    prompt = " ".join(f"q{n}" for n in range(question)) or "?"
    trace = replace(random_trace, prompt=prompt, expected=" ".join(["a"] * answer))
    example = proposal.example_of(WORD, trace)
    if example is None:
        assert answer > proposal.EXAMPLE_TOKENS - proposal.QUESTION_TOKENS - 10
        return
    assert WORD.text(example.render()) <= proposal.EXAMPLE_TOKENS
    assert example.answer == trace.expected
    assert example.question == prompt or example.question.count("characters left out") == 1


@pytest.fixture(scope="session")
def random_trace() -> Any:
    return Trace("iter-001/train/t", "t", "p", 0, (), (), "a", "e", 0.0, "r", "stop", {}, 1, "scripted", "0")


def test_an_example_that_was_cut_is_known(random_state: Made) -> None:
    state, traces = random_state(3, pages=0, skills=0)
    long = tuple(replace(trace, prompt=f"{trace.task} " + "word " * 900, score=0.0, expected="x") for trace in traces)
    first = proposal.citable(state, long)[0]
    example = proposal.example_of(state.reader, first)
    assert example is not None
    assert example.question != first.prompt
    state = replace(state, skills=SkillSet((skill_of(example),)))
    assert first.task not in [trace.task for trace in proposal.citable(state, long)]


def test_answers_too_long_to_show_teach_their_rules(random_state: Made) -> None:
    """Where others fit, those are cited; where none does, a skill is made without examples."""
    state, traces = random_state(3, pages=0, skills=0)
    failing = [replace(trace, score=0.0, expected="word " * 900, rules=("must end",)) for trace in traces]
    mixed = [replace(failing[0], expected="x"), *failing[1:]]
    assert [trace.task for trace in proposal.citable(state, mixed)] == [failing[0].task]
    assert len(proposal.citable(state, failing)) == len(failing)
    made = {"action": "create", "name": "house", "description": "d", "when": ["a"], "when_not": ["b"]}
    made |= {"instructions": ["c"], "examples": [trace.task for trace in failing[:4]]}
    draft = proposal.draft_change(state, failing, made)
    assert draft.change is not None
    assert draft.change.skill.examples() == ()
    assert skills.section(draft.change.skill.body, "Instructions") == "- c\n- must end"


def test_examples_are_counted_by_the_student(random_state: Made) -> None:
    state, traces = random_state(3, pages=0, skills=0)
    heavy = Meter(lambda messages: sum(len(one.content) for one in messages), 8000)
    assert state.reader is state.proposer
    assert replace(state, student=heavy).reader is heavy
    wordy = [replace(trace, expected="word " * 60, score=0.0) for trace in traces]
    assert proposal.example_of(state.reader, wordy[0]) is not None
    assert proposal.example_of(replace(state, student=heavy).reader, wordy[0]) is None


# Rules.


def test_rules_come_of_what_graders_ask_whatever_the_reasons_say(random_trace: Any) -> None:
    def failed(reason: str, *rules: str) -> Any:
        return replace(random_trace, reason=reason, rules=rules)

    same = [failed("took too long to search; expected one"), failed("took too long to search; expected one")]
    assert proposal.recurring_reasons(same) == []
    ruled = [
        failed("one", "expected [OPS]; always", "b"),
        failed("two", "expected [OPS]; always"),
        failed("3", "b", "b"),
    ]
    assert proposal.recurring_reasons(ruled) == ["expected [OPS]; always", "b"]
    assert proposal.recurring_reasons([failed("one", "b", "b")]) == []
    assert proposal.recurring_reasons([replace(one, score=1.0) for one in ruled]) == []
