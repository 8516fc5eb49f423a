"""A night on a server that is killed in the middle and comes back: nothing is made up, and nothing is generated twice."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.engine.backends.openai import load
from nightschool.engine.engine import Engine
from nightschool.engine.types import EngineError, Message, Request
from nightschool.loop.report import status


@pytest.fixture
def far(toy: Any, server: Any) -> Any:
    """The toy's people live on the server: it answers by their scripts, and its probe by itself."""

    def script(body: Any, grammar: Any) -> str | None:
        messages = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
        request = Request(messages, grammar)
        if len(messages) < 2:
            return None
        role = "student" if grammar is None else "proposer" if "traces/train-" in grammar.lark else "maintainer"
        answers = {"student": toy.student, "proposer": toy.propose, "maintainer": toy.maintain}
        return str(answers[role](request))

    def opened(alias: str) -> Engine:
        return load(replace(server.spec(retries=1), alias=alias), width=2)

    server.script, toy.open_engine = script, opened
    return toy


def asked(server: Any) -> Counter[str]:
    """How often each question of a student was put."""
    return Counter(json.dumps(body["messages"]) for body in server.bodies if "structured_outputs" not in body)


def stamps(toy: Any) -> dict[Any, tuple[int, int]]:
    found = [path for split in ("train", "val", "test") for path in toy.space.raw.glob(f"*/{split}/*.json")]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def test_a_night_through_a_server(far: Any, server: Any, words: Any) -> None:
    far.proposals += [words.made("helps", "k0")]
    far.night()
    assert far.skills() == ["helps"] and far.events("end")
    replies = status(far.space)["replies"]
    assert replies["valid"] == replies["total"] >= 3


@pytest.mark.parametrize("told", [True, False])
def test_a_server_that_comes_back_with_another_model_stops_the_night(
    far: Any, server: Any, words: Any, told: bool
) -> None:
    """Whether its answers tell, or only its list after a failure: no trace is another model's."""
    far.proposals += [words.made("helps", "k0")] * 2
    usual, first = server.post, server.model

    def post(call: Any, body: Any) -> None:
        if server.model == first and sum(asked(server).values()) == 6 and "structured_outputs" not in body:
            server.model = "another"
            if not told:
                server.troubles.extend([lambda call: call.answer(500, {})] * 2)
        usual(call, body)

    server.post = post
    with pytest.raises(MachineProblem, match="another model") as caught:
        far.night()
    assert caught.value.exit_code == 3 and not far.events("end")
    with pytest.raises(Problem, match="model changed since this night began"):
        far.night()
    server.post, server.model = usual, first
    far.night()
    assert far.skills() == ["helps"] and far.events("end")


def test_replies_that_were_asked_for_again_are_counted(far: Any, server: Any, words: Any) -> None:
    far.proposals += [words.made("helps", "k0")]
    usual, slips = server.script, ["I would rather not.", '{"thought":"so"}']

    def script(body: Any, grammar: Any) -> str | None:
        first = grammar is not None and "finish" in grammar.lark and len(body["messages"]) > 1
        return slips.pop() if first and slips else str(said) if (said := usual(body, grammar)) is not None else None

    server.script = script
    far.night()
    assert far.skills() == ["helps"] and not slips
    (proposal,) = far.events("proposal")
    assert proposal["replies"] == {"total": 5, "valid": 3, "retried": 2, "degraded": 0}


@pytest.mark.parametrize("answers", [2, 6, 9, 12])
def test_a_server_that_is_killed_stops_the_night_and_the_night_goes_on(
    far: Any, server: Any, words: Any, answers: int
) -> None:
    far.proposals += [words.made("helps", "k0")] * 2
    usual = server.post

    def post(call: Any, body: Any) -> None:
        told = [body for body in server.bodies if len(body["messages"]) > 1]
        if call.path.endswith("completions") and len(told) >= answers:
            server.post = usual
            server.stop()
        else:
            usual(call, body)

    server.post = post
    with pytest.raises(MachineProblem, match=r"the server at .* failed: it cannot be reached") as caught:
        far.night()
    assert isinstance(caught.value, EngineError) and caught.value.exit_code == 3
    assert not far.events("end")
    kept, before = stamps(far), asked(server)
    server.start()
    far.night()
    assert far.skills() == ["helps"] and far.events("end")
    after = stamps(far)
    assert {path: after[path] for path in kept} == kept
    again = asked(server) - before
    lost = sum(before.values()) - len(kept)
    assert sum(again.values()) == len(after) - len(kept) and 0 <= lost <= 2
    assert max(Counter((event["event"], event["k"]) for event in far.journal.events).values()) == 1
