"""drive: many agents on one engine; an agent that waits never holds up the others."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import pytest

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.engine import Job, JobResult, drive
from nightschool.engine.types import Completion, Message, Request


def ask(text: str) -> Request:
    return Request((Message("user", text),))


def echo(request: Request) -> str:
    return request.messages[-1].content.upper()


def test_every_agent_gets_its_own_replies() -> None:
    def agent(name: str, turns: int) -> Generator[Request, Completion, list[str]]:
        said = []
        for turn in range(turns):
            reply = yield ask(f"{name}{turn}")
            said.append(reply.text)
        return said

    agents = {f"a{n}": agent(f"a{n}", n) for n in range(6)}
    done = dict(drive(ScriptedEngine(default=echo), agents))
    assert done == {f"a{n}": [f"A{n}{turn}" for turn in range(n)] for n in range(6)}


def test_agents_end_in_their_own_time() -> None:
    def agent(turns: int) -> Generator[Request, Completion, int]:
        for _ in range(turns):
            yield ask("x")
        return turns

    order = [turns for _, turns in drive(ScriptedEngine(default=echo), {str(n): agent(n) for n in (3, 1, 2)})]
    assert order == [1, 2, 3]


def test_a_slow_job_does_not_hold_up_the_others() -> None:
    release = threading.Event()

    def slow() -> Generator[Any, Any, str]:
        result: JobResult = yield Job(lambda: release.wait(10))
        return f"job said {result.value}"

    def quick() -> Generator[Any, Any, str]:
        for _ in range(3):
            yield ask("x")
        release.set()
        return "quick"

    assert [text for _, text in drive(ScriptedEngine(default=echo), {"slow": slow(), "quick": quick()})] == [
        "quick",
        "job said True",
    ]


def test_when_one_raises_all_are_closed_and_nothing_stays_open() -> None:
    closed = []

    def patient(name: str) -> Generator[Request, Completion, None]:
        try:
            while True:
                yield ask(name)
        finally:
            closed.append(name)

    def broken() -> Generator[Request, Completion, None]:
        yield ask("x")
        raise ValueError("broken agent")

    engine = ScriptedEngine(default=echo)
    with pytest.raises(ValueError, match="broken agent"):
        list(drive(engine, {"p": patient("p"), "b": broken(), "q": patient("q")}))
    assert sorted(closed) == ["p", "q"]
    assert engine.step() == []


def test_a_failing_job_is_raised_and_the_rest_is_closed() -> None:
    def job() -> Generator[Any, Any, None]:
        yield Job(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        list(drive(ScriptedEngine(default=echo), {"j": job()}))


def test_a_caller_that_stops_early_closes_the_agents() -> None:
    closed = []

    def agent(name: str, turns: int) -> Generator[Request, Completion, str]:
        try:
            for _ in range(turns):
                yield ask(name)
            return name
        finally:
            closed.append(name)

    running = drive(ScriptedEngine(default=echo), {"a": agent("a", 1), "b": agent("b", 99)})
    assert next(running) == ("a", "a")
    running.close()  # type: ignore[attr-defined]
    assert sorted(closed) == ["a", "b"]
