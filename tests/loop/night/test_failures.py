"""A failed machine stops a night with its reason, never with a score, and the night goes on from there."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.engine.types import EngineError, OutOfMemory
from nightschool.loop.crew import Interrupted


def failing(toy: Any, role: str, errors: list[Exception]) -> None:
    """The role's engine answers once, then raises these at its next steps."""
    usual = toy.open_engine

    def opened(alias: str) -> Any:
        engine = usual(alias)
        step, steps = engine.step, iter(range(1000))
        engine._width = 1

        def raising() -> Any:
            if alias == role and errors and next(steps) > 0:
                raise errors.pop(0)
            return step()

        engine.step = raising
        return engine

    toy.open_engine = opened


@pytest.mark.parametrize("role", ["student", "proposer"])
def test_a_failed_engine_is_started_again(toy: Any, words: Any, role: str) -> None:
    failing(toy, role, [EngineError("the engine died", "wait")])
    toy.proposals += [words.made("helps", "k0")]
    toy.night()
    assert len(toy.engines[role]) == 2
    assert toy.engines[role][0].closed
    assert "the engine failed and is started again: the engine died" in toy.watcher.notes
    assert toy.skills() == ["helps"]


def test_what_was_answered_before_is_not_asked_again(toy: Any) -> None:
    failing(toy, "student", [EngineError("died", "wait")])
    with toy.opened() as night:
        night.baseline()
    first, second = toy.engines["student"]
    assert [len(first.prompts), len(second.prompts)] == [4, 3]


@pytest.mark.parametrize("role", ["student", "proposer"])
def test_an_engine_that_keeps_failing_stops_the_night(toy: Any, words: Any, role: str) -> None:
    toy.proposals += [words.made("helps", "k0")]
    failing(toy, role, [EngineError(f"died {n}", "wait") for n in range(3)])
    with pytest.raises(MachineProblem, match="died 2"):
        toy.night()
    assert not toy.events("end")
    assert 0.0 not in [event["score"] for event in toy.events("gate")]
    toy.night()
    assert toy.skills() == ["helps"]
    assert toy.events("end")


def test_no_score_is_made_up_for_a_task_that_failed(toy: Any) -> None:
    failing(toy, "student", [EngineError("died", "wait")] * 3)
    with pytest.raises(MachineProblem):
        toy.night()
    assert len(list((toy.space.raw / "iter-000" / "val").glob("*.json"))) < 4
    assert not toy.events("baseline")


def test_out_of_memory_is_tried_twice(toy: Any) -> None:
    failing(toy, "student", [OutOfMemory("no room", "close something")] * 2)
    with pytest.raises(OutOfMemory):
        toy.night()


def test_all_engines_are_closed_when_a_night_stops(toy: Any) -> None:
    failing(toy, "maintainer", [EngineError("died", "wait")] * 3)
    toy.studies += [{"create": [], "log": "not in the grammar"}] * 3
    with pytest.raises(EngineError):
        toy.night()
    assert all(engine.closed for engines in toy.engines.values() for engine in engines)


def test_ctrl_c_stops_at_a_step_and_the_night_goes_on(toy: Any, words: Any) -> None:
    from nightschool.loop.evolve import evolve

    toy.proposals += [words.made("helps", "k0")]
    with pytest.raises(Interrupted), toy.opened() as night:
        toy.watcher.stage = lambda k, name, total: setattr(night.crew, "stopping", name == "propose")
        evolve(night)
    del toy.watcher.stage
    toy.night()
    assert toy.skills() == ["helps"]
    assert len(toy.events("study")) == 1


def writes(monkeypatch: pytest.MonkeyPatch, full_from: int) -> list[int]:
    """The disk is full from this write on; counts the writes."""
    counted: list[int] = []
    real = os.write

    def write(fd: int, data: Any) -> int:
        counted.append(fd)
        if len(counted) > full_from:
            real(fd, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    return counted


def test_a_full_disk_at_any_write_stops_the_night_and_it_goes_on(toys: Any, words: Any) -> None:
    place, ended = 0, False
    while not ended:
        toy = toys()
        toy.proposals += [words.made("helps", "k0")]
        with pytest.MonkeyPatch.context() as patch:
            writes(patch, place)
            try:
                toy.night()
                ended = True
            except MachineProblem as problem:
                assert "no space left on device" in problem.what
        toy.proposals.extend([] if toy.proposals else [words.made("helps", "k0")])
        if not ended:
            toy.night()
        assert toy.skills() == ["helps"], place
        assert [event["accepted"] for event in toy.events("settled")] == [True], place
        assert not list(toy.space.root.rglob("*.tmp")), place
        place += 4
    assert place > 40


def test_tasks_that_do_not_fit_the_model_are_a_persons_problem(toy: Any) -> None:
    toy.context = 10
    with pytest.raises(Problem, match="context"):
        toy.night()
    assert not toy.events("night")
