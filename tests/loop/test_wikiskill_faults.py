"""What a person or a task can bring upon the maintainer and the proposer goes back, degrades, or is told; no night ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest

from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.types import Completion, Request, Usage
from nightschool.loop import skills, wiki
from nightschool.loop.meter import Meter
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.skills import Example, Skill, SkillSet
from nightschool.loop.strategies.asking import ATTEMPTS, Unusable
from nightschool.loop.strategies.wikiskill import maintainer, proposal, proposer
from nightschool.loop.strategies.wikiskill.strategy import WikiSkill
from nightschool.loop.wiki import Page, Wiki

Made = Callable[..., Any]
ODD = ["x: 1e999", f"{'k' * 120}: 1"]


def run(agent: Generator[Request, Completion, Any], say: Callable[[Request], str]) -> tuple[Any, list[Request]]:
    """Drive an agent by hand."""
    asked: list[Request] = []
    try:
        request = next(agent)
        while True:
            asked.append(request)
            text = say(request)
            assert request.grammar is None or accepts(request.grammar, text), text
            request = agent.send(Completion(text, "stop", Usage()))
    except StopIteration as end:
        return end.value, asked


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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


# An empty sample.


@pytest.mark.parametrize("pages", [0, 3])
@pytest.mark.parametrize("shape", ["none wanted", "none there"])
def test_nothing_to_show_is_nothing_learned(random_state: Made, pages: int, shape: str) -> None:
    state, traces = random_state(1, pages=pages, skills=0)
    wanted = {"fail": 0, "pass": 0} if shape == "none wanted" else {"pass": 0}
    passing = tuple(replace(trace, score=1.0) for trace in traces)
    state = replace(state, settings=EvolveSettings.model_validate(wanted))
    study, asked = run(WikiSkill().study(state, passing), lambda request: "")  # type: ignore[arg-type]
    assert not asked
    assert study.pages == ()
    assert study.log


def test_an_empty_view_has_a_grammar(random_state: Made) -> None:
    state, _ = random_state(1, pages=0, skills=0)
    view = maintainer.view_of(state, (), 1000)
    assert accepts(maintainer.grammar_for(view, first=True), '{"create":[],"log":"x"}')


# Model text that says nothing.


def test_no_text_of_a_reply_may_be_empty(random_state: Made, sample_reply: Callable[[Grammar, int], str]) -> None:
    state, traces = random_state(5, pages=3, skills=1)
    view = maintainer.view_of(state, traces[:5], 4000)
    grammars = [
        maintainer.grammar_for(view, first=False),
        proposer.turn_grammar(["traces/t1"], None),
        proposer.turn_grammar([], proposal.proposal_term(state, traces)),
    ]

    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for part in value.values() for text in texts(part)]
        return [text for part in value for text in texts(part)] if isinstance(value, list) else [value]

    for grammar in grammars:
        assert grammar.node is not None
        replies = [grammar.node.closing().decode(), *(sample_reply(grammar, seed) for seed in range(3))]
        assert all(all(texts(json.loads(reply))) for reply in replies)
        for key in ("thought", "log"):
            reply = json.loads(replies[0])
            if key in reply:
                assert not accepts(grammar, compact({**reply, key: ""}))


def test_a_blank_description_goes_back(random_state: Made) -> None:
    state, traces = random_state(5, pages=0, skills=0)
    made = {"action": "create", "name": "house", "description": "  ", "when": ["a"], "when_not": ["b"]}
    made |= {"instructions": ["c"], "examples": [traces[0].task]}
    with pytest.raises(Unusable, match="no letter"):
        proposer.act(state, traces, {"action": "finish", "proposal": made})


# A person's odd front matter.


def odd_page(front: str) -> Page:
    return Page("odd", f"---\nid: odd\n{front}\n---\n# odd\n\n## Problem\n- known line\n\n## Fix\n- mend it\n")


def edit(op: str, **fields: Any) -> dict[str, Any]:
    return {"op": op, "page": "odd", **fields, "content": ["a new line"], "evidence": ["t1"]}


@pytest.mark.parametrize("front", ODD)
@pytest.mark.parametrize(
    "first",
    [edit("append"), edit("replace", target="- known line"), edit("insert_after", target="- mend it")],
    ids=lambda first: first["op"],
)
def test_a_page_that_cannot_be_written_is_appended_to_in_the_end(
    random_state: Made, front: str, first: dict[str, Any]
) -> None:
    state, traces = random_state(2, pages=0, skills=0)
    state = replace(state, wiki=Wiki((odd_page(front),)))
    reply = compact({"edits": [first], "create": [], "log": "well"})
    study, asked = run(maintainer.study(state, traces[:3]), lambda request: reply)
    assert len(asked) == ATTEMPTS
    assert all("the page odd does not take the edits" in request.messages[-1].content for request in asked[1:])
    assert study.replies == {"total": 3, "valid": 3, "retried": 2, "degraded": 1}
    (page,) = study.pages
    assert page.text == odd_page(front).text + "- a new line\n"
    assert study.edits["applied"] == study.edits["total"] == 1
    assert study.log.startswith("well (odd: the evidence could not be noted")


def test_an_edit_that_does_not_fit_degrades_to_an_append(random_state: Made) -> None:
    """Grammars leave no such edit; code that were to make one would not end the night."""
    state, traces = random_state(2, pages=0, skills=0)
    state = replace(state, wiki=Wiki((odd_page("x: 1"),)))
    view = maintainer.view_of(state, traces[:3], 4000)
    reply = {"edits": [edit("replace", target="- gone")], "create": [], "log": "well"}
    with pytest.raises(Unusable, match="does not occur"):
        maintainer.learn(state, view, reply)
    (page,), log, counts = maintainer.learn(state, view, reply, append=True)
    assert "\n- mend it\n- a new line\n" in page.text
    assert page.evidence == (traces[1].id,)
    assert "appended" in log
    assert counts["applied"] == 1


@pytest.mark.parametrize("front", ["license: 1e999"])
def test_a_skill_that_cannot_be_written_goes_back(random_state: Made, front: str) -> None:
    state, traces = random_state(2, pages=0, skills=0)
    skill = skill_of(front=front)
    assert skills.faults(skill.skill_md, "house") == []
    state = replace(state, skills=SkillSet((skill,)), settings=EvolveSettings(min_reads=0))
    task = proposal.citable(state, traces)[0].task
    patch = {"action": "patch", "skill": "house", "edits": [], "examples": [task]}
    reply = compact({"thought": "t", "action": "finish", "proposal": patch})
    made, asked = run(proposer.propose(state, traces), lambda request: reply)
    assert made.change is None
    assert len(asked) == ATTEMPTS
    assert "could not be used: inf" in asked[-1].messages[-1].content


def test_evidence_that_leaves_a_page_is_told(random_state: Made) -> None:
    state, traces = random_state(2, pages=0, skills=0)
    older = [replace(traces[0], id=f"iter-001/train/x{n}") for n in range(wiki.MAX_EVIDENCE)]
    page = wiki.new_page(
        "full", kind="failure", scope="general", problem=["p"], root_cause=["r"], fix=["f"], evidence=older, iteration=1
    )
    state = replace(state, wiki=Wiki((page,)))
    view = maintainer.view_of(state, traces[:3], 9000)
    more = {"op": "append", "page": "full", "content": ["x"], "evidence": ["t0", "t1"]}
    (after,), log, _ = maintainer.learn(state, view, {"edits": [more], "create": [], "log": "well"})
    gone = {*page.evidence} - {*after.evidence}
    assert len(gone) == 2
    assert all(identity in log for identity in gone)


# Room for reading.


@pytest.mark.parametrize("twice", [1, 2])
@pytest.mark.parametrize("context", [6000, 8192, 16000])
def test_what_is_told_at_once_leaves_room_for_reading(random_state: Made, context: int, twice: int) -> None:
    """Long indexes, logs and outcomes; a template that says the system prompt twice."""
    meter = Meter(
        lambda messages: sum(len(one.content) // 4 * (twice if one.role == "system" else 1) + 4 for one in messages),
        context,
    )
    state, traces = random_state(4, pages=60, skills=0, tasks=60)
    impact = "\n\n".join(f"## iteration {n} | rejected | create x{n}\n\n" + "why " * 80 for n in range(60))
    state = replace(state, maintainer=meter, proposer=meter, impact=impact)
    traces = tuple(replace(trace, answer="word " * 900, prompt=trace.prompt + " word" * 900) for trace in traces)

    def say(request: Request) -> str:
        turn = len(request.messages) // 2 - 1
        assert meter.count(request.messages) + request.sampling.max_tokens <= context
        if turn < state.settings.min_reads:
            return compact({"thought": "t", "action": "read_file", "path": f"traces/{traces[turn].task}"})
        return compact({"thought": "t", "action": "finish", "proposal": {"action": "no_action", "reason": "enough"}})

    made, _ = run(proposer.propose(state, traces), say)
    assert len(made.reads) == state.settings.min_reads
    assert any(item.startswith("outcome of ") for item in made.omitted)
    assert any(item.startswith("impact entry") for item in made.omitted)
    _, asked = run(maintainer.study(state, traces[:8]), lambda request: '{"edits":[],"create":[],"log":"x"}')
    assert all(meter.count(one.messages) + one.sampling.max_tokens <= context for one in asked)


@pytest.mark.parametrize("context", [900, 1500, 2200, 3000])
def test_a_small_context_is_shared(random_state: Made, context: int) -> None:
    meter = Meter(lambda messages: sum(len(one.content) // 4 + 4 for one in messages), context)
    state, traces = random_state(4, pages=5, skills=0)
    told, omitted = proposer.opening(replace(state, proposer=meter), traces, max(context // 3, 0))
    assert meter.text(told) <= context // 3 + 100
    assert bool(omitted) == ("t11" not in told or "part of the wiki index" in omitted)
