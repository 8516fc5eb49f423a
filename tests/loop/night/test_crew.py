"""Engines by role: shared, swapped, and looked at without being loaded again."""

from __future__ import annotations

from typing import Any

import pytest

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.types import Message
from nightschool.loop.crew import Crew
from nightschool.loop.evolve import evolve
from nightschool.loop.nights import open_night, resolve

HELLO = [Message("user", "hello")]


@pytest.fixture
def opened() -> list[str]:
    return []


@pytest.fixture
def swapping(opened: list[str]) -> Crew:
    """Two models that do not fit beside each other."""

    def opener(alias: str) -> ScriptedEngine:
        opened.append(alias)
        return ScriptedEngine()

    roles = {"student": "small", "maintainer": "large", "proposer": "large"}
    return Crew(roles, opener, together=lambda a, b: False)


def test_roles_of_one_model_share_its_engine(swapping: Crew, opened: list[str]) -> None:
    swapping.engine("maintainer")
    swapping.engine("proposer")
    assert opened == ["large"]


def test_a_model_that_does_not_fit_is_unloaded(swapping: Crew, opened: list[str]) -> None:
    for role in ("student", "maintainer", "student"):
        swapping.engine(role)
    assert opened == ["small", "large", "small"]


def test_counting_for_a_role_does_not_unload_the_model_at_work(swapping: Crew, opened: list[str]) -> None:
    swapping.engine("student")
    swapping.engine("proposer")
    assert swapping.meter("student").count(HELLO) == swapping.meter("proposer").count(HELLO)
    assert swapping.model("student").alias == "scripted"
    assert opened == ["small", "large"]


def test_a_meter_counts_with_the_engine_that_was_started_again() -> None:
    counted: list[int] = []

    class Counting(ScriptedEngine):
        def count(self, messages: Any) -> int:
            counted.append(engines.index(self))
            return super().count(messages)

    engines = [Counting(), Counting()]
    left = iter(engines)
    crew = Crew({"student": "small"}, lambda alias: next(left))
    meter = crew.meter("student")
    crew.restart("student")
    crew.engine("student")
    meter.count(HELLO)
    assert counted == [1]


def test_a_night_with_models_that_take_turns(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    roles = {role: role for role in ("student", "maintainer", "proposer")}
    config = resolve(toy.space, {})
    with open_night(toy.space, config, roles, toy.open_engine, toy.watcher, together=lambda a, b: False) as night:
        evolve(night)
        alive = [engine for engines in toy.engines.values() for engine in engines if not engine.closed]
        assert len(alive) == 1
    assert toy.skills() == ["helps"]
