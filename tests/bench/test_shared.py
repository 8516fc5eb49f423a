"""One engine for several nights: every view gets its own replies, and all hear of a failure."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nightschool.bench.shared import Shared
from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.engine import drive
from nightschool.engine.types import EngineError, Message, Request


def ask(text: str) -> Request:
    return Request((Message("user", text),))


def test_views_in_threads_get_their_own_replies() -> None:
    shared = Shared(ScriptedEngine(default=lambda request: request.messages[-1].content.upper()))

    def agent(text: str):  # type: ignore[no-untyped-def]
        first = yield ask(text)
        second = yield ask(first.text + "x")
        return second.text

    def night(n: int) -> dict[str, str]:
        view = shared.view()
        return dict(drive(view, {f"{n}-{m}": agent(f"n{n}m{m}") for m in range(5)}))

    with ThreadPoolExecutor(6) as pool:
        for n, done in enumerate(pool.map(night, range(6))):
            assert done == {f"{n}-{m}": f"N{n}M{m}X" for m in range(5)}
    assert not shared.owners


def test_a_failure_reaches_every_view_with_open_tickets() -> None:
    shared = Shared(ScriptedEngine())
    one, two, idle = shared.view(), shared.view(), shared.view()
    one.submit(ask("a"))
    two.submit(ask("b"))
    with pytest.raises(EngineError):
        one.step()
    with pytest.raises(EngineError):
        two.step()
    assert idle.step() == []
