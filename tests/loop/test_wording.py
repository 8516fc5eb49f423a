"""Model text that says nothing goes back with the reason, and in the end is left out; any other text is taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.engine.types import Completion, Usage
from nightschool.loop.strategies.asking import ATTEMPTS, Unusable
from nightschool.loop.strategies.wikiskill import maintainer, proposal, proposer, wording

Made = Callable[..., Any]
LEAKED = 'give the value","action":"finish'
SAYS_NOTHING = {
    "  ": "no letter",
    "---": "no letter",
    "12 + 30 = 42": "no letter",
    "the the the": "over and over",
    "The, the. THE": "over and over",
    "hahahahaha": "over and over",
    LEAKED: 'the key "action" of the reply',
    '{"root_cause": 1}': 'the key "root_cause" of the reply',
}
SAYS_SOMETHING = [
    "x",
    "no no",
    "Mississippi",
    "答えは短く",
    "Answer with the action: finish.",
    'Quote it: "Port: 7443"',
    'Reply with {"owner": "Runa"}.',
    "Never say never, never.",
]


@pytest.mark.parametrize(("text", "reason"), SAYS_NOTHING.items())
def test_text_that_says_nothing_is_told(text: str, reason: str) -> None:
    told = wording.fault(text)
    assert told is not None and reason in told and "\n" not in told


@pytest.mark.parametrize("text", SAYS_SOMETHING)
def test_other_text_is_taken(text: str) -> None:
    assert wording.fault(text) is None


@given(st.text(), st.text(alphabet="abcdefghij", min_size=1), st.text(alphabet="klmnop", min_size=1))
def test_two_different_words_without_json_are_always_something(noise: str, one: str, other: str) -> None:
    assert wording.fault(f"{one} {noise.replace(chr(34), ' ')} {other}") is None


def test_a_lesson_may_speak_of_keys_that_the_tasks_have(random_state: Made) -> None:
    _, traces = random_state(1, pages=0, skills=0)
    asks = replace(traces[0], expected='{"action": "refund"}')
    allowed = wording.quoted_keys([asks])
    assert wording.fault('Reply with {"action": "refund"}.', allowed) is None
    assert wording.fault('Reply with {"proposal": {}}.', allowed) is not None


def keys(schema: Any) -> Iterator[str]:
    """Every property of a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for part in schema.values():
            yield from keys(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from keys(part)


def test_the_keys_are_those_of_the_grammars(random_state: Made) -> None:
    state, traces = random_state(5, pages=3, skills=1)
    view = maintainer.view_of(state, traces[:5], 4000)
    grammars = [
        maintainer.grammar_for(view, first=False),
        proposer.turn_grammar(["traces/t1"], proposal.proposal_term(state, traces)),
    ]
    assert {key for grammar in grammars for key in keys(grammar.portable)} == wording.REPLY_KEYS


def page(name: str, fix: str) -> dict[str, Any]:
    usual = {
        "name": name,
        "kind": "failure",
        "scope": "general",
        "problem": "It is wrong.",
        "root_cause": "It guessed.",
    }
    return {**usual, "fix": [fix], "evidence": ["t1"]}


def run(agent: Any, reply: str) -> tuple[Any, list[str]]:
    """Drive an agent that always gets the same reply; its end, and what it was told last each time."""
    asked: list[str] = []
    try:
        request = next(agent)
        while True:
            asked.append(request.messages[-1].content)
            request = agent.send(Completion(reply, "stop", Usage()))
    except StopIteration as end:
        return end.value, asked


@pytest.mark.parametrize("text", SAYS_NOTHING)
def test_a_page_that_says_nothing_goes_back_and_is_left_out_in_the_end(random_state: Made, text: str) -> None:
    state, traces = random_state(2, pages=0, skills=0)
    reply = {"create": [page("good", "Look it up."), page("bad", text)], "log": "well"}
    study, asked = run(maintainer.study(state, traces[:3]), json.dumps(reply))
    assert len(asked) == ATTEMPTS and SAYS_NOTHING[text] in asked[1]
    assert [one.id for one in study.pages] == ["good"]
    assert study.log.startswith("well (left out: the text ") and SAYS_NOTHING[text] in study.log
    assert len(study.refused) == ATTEMPTS and SAYS_NOTHING[text] in study.refused[0]
    assert study.replies == {"total": 3, "valid": 3, "retried": 2, "degraded": 1}


def test_an_edit_that_says_nothing_is_left_out_and_the_others_stand(random_state: Made) -> None:
    state, traces = random_state(2, pages=1, skills=0)
    view = maintainer.view_of(state, traces[:3], 9000)
    name = view.pages[0].id
    good, bad = [
        {"op": "append", "page": name, "content": [text], "evidence": ["t1"]} for text in ("Look it up.", LEAKED)
    ]
    reply = {"edits": [good, bad], "create": [], "log": "well"}
    with pytest.raises(Unusable, match='the key "action"'):
        maintainer.learn(state, view, reply)
    (after,), _, counts = maintainer.learn(state, view, reply, append=True)
    assert "- Look it up." in after.text and "finish" not in after.text
    assert counts["applied"] == counts["total"] == 1


@pytest.mark.parametrize("where", ["description", "when", "when_not", "instructions"])
def test_a_skill_that_says_nothing_goes_back(random_state: Made, where: str) -> None:
    state, traces = random_state(5, pages=0, skills=0)
    made: dict[str, Any] = {"action": "create", "name": "house", "description": "Answers.", "when": ["asked"]}
    made |= {"when_not": ["never"], "instructions": ["look"], "examples": [traces[0].task]}
    assert proposer.act(state, traces, {"action": "finish", "proposal": made}) is not None
    made[where] = LEAKED if where == "description" else [LEAKED]
    with pytest.raises(Unusable, match='the key "action"'):
        proposer.act(state, traces, {"action": "finish", "proposal": made})


def test_a_patch_that_says_nothing_goes_back_and_ends_as_no_action(random_state: Made) -> None:
    state, traces = random_state(2, pages=0, skills=1)
    edit = {"op": "append", "content": ["---"]}
    patch = {"action": "patch", "skill": "skill-0", "edits": [edit], "examples": []}
    made, asked = run(proposer.propose(state, traces), json.dumps({"action": "finish", "proposal": patch}))
    assert made.change is None and len(asked) == ATTEMPTS
    assert made.reason == 'the proposer\'s reply could not be used: the text "---" has no letter'
    assert made.refused == ('the text "---" has no letter',) * ATTEMPTS
