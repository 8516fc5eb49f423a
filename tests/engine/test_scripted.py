"""The scripted engine, through the same `drive` that real engines run under."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from nightschool.engine import terms
from nightschool.engine.backends.scripted import ScriptedEngine, load, shortest
from nightschool.engine.engine import drive
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.models import scripted_spec
from nightschool.engine.types import Completion, EngineError, Message, PromptTooLong, Request, Sampling

YES = Grammar.choice(["yes", "no"])


def ask(text: str = "well?", grammar: Grammar | None = None, **sampling: Any) -> Request:
    return Request((Message("user", text),), grammar, Sampling(**sampling))


def answers(engine: ScriptedEngine, *requests: Request) -> list[Completion]:
    tickets = [engine.submit(request) for request in requests]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    return [done[ticket] for ticket in tickets]


def test_replies_come_in_order_and_then_the_default() -> None:
    engine = ScriptedEngine(["one", lambda request: request.messages[-1].content.upper()], default="else")
    engine.enqueue("three")
    got = answers(engine, ask("a"), ask("b"), ask("c"), ask("d"))
    assert [completion.text for completion in got] == ["one", "B", "three", "else"]
    assert [request.messages[0].content for request in engine.prompts] == ["a", "b", "c", "d"]
    assert all(completion.valid and completion.finish == "stop" for completion in got)
    assert engine.batch_invariant and engine.step() == []


def test_a_grammar_is_obeyed() -> None:
    assert answers(ScriptedEngine(["yes"]), ask(grammar=YES))[0].text == "yes"
    engine = ScriptedEngine(["maybe", "yes"])
    engine.submit(ask(grammar=YES))
    engine.submit(ask(grammar=YES))
    with pytest.raises(EngineError, match="maybe"):
        engine.step()
    assert engine.step() == []


def test_an_empty_script_is_an_error() -> None:
    engine = ScriptedEngine()
    engine.submit(ask("the question"))
    with pytest.raises(EngineError, match="the question"):
        engine.step()


def test_length_and_stop() -> None:
    engine = ScriptedEngine(["one two, three four", "first\nsecond"])
    cut, stopped = answers(engine, ask(max_tokens=3), ask(stop=("\n",)))
    assert (cut.text, cut.finish, cut.valid) == ("one two,", "length", False)
    assert (stopped.text, stopped.finish, stopped.valid) == ("first", "stop", True)


def test_a_cancelled_ticket_uses_up_no_reply() -> None:
    engine = ScriptedEngine(["one"], width=1)
    first, second = engine.submit(ask("a")), engine.submit(ask("b"))
    engine.cancel(first)
    engine.cancel(99)
    assert [(ticket, completion.text) for ticket, completion in engine.step()] == [(second, "one")]


def test_a_long_prompt_names_its_longest_part() -> None:
    engine = ScriptedEngine(default="x", context=40)
    with pytest.raises(PromptTooLong, match=r"message 2 \(user\) with 50"):
        engine.submit(Request((Message("system", "a b"), Message("user", "w " * 50)), None, Sampling(max_tokens=1)))
    assert engine.count([Message("user", "a, b")]) == 9


def test_loaded_it_gives_the_shortest_reply() -> None:
    engine = load(scripted_spec(), width=2)
    grammar = Grammar.build(terms.obj({"log": terms.text(20, 1), "ids": terms.distinct(["t1", "t2"], 1, 2)}))
    got = answers(engine, ask(grammar=grammar), ask(grammar=YES), ask())
    assert accepts(grammar, got[0].text) and len(got[0].text) == grammar.shortest
    assert [completion.text for completion in got[1:]] == ["no", ""]
    assert engine.capacity() == 2
    engine.close()
    with pytest.raises(EngineError, match="Lark"):
        shortest(ask(grammar=Grammar.from_lark('start: "a"', 2)))


def test_under_drive() -> None:
    def agent(name: str) -> Generator[Request, Completion, str]:
        first = yield ask(name)
        second = yield ask(first.text)
        return f"{name}: {second.text}"

    engine = ScriptedEngine(default=lambda request: request.messages[-1].content + "!", width=2)
    got = dict(drive(engine, {name: agent(name) for name in "abc"}))
    assert got == {name: f"{name}: {name}!!" for name in "abc"}
