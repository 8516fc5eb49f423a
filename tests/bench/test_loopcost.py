"""The bench of the loop: whole nights of a made-up job; no figure is asserted."""

from __future__ import annotations

import os

import pytest

from nightschool.bench import loopcost
from nightschool.bench.made_job import made_job, people
from nightschool.loop.evolve import evolve
from nightschool.loop.journal import Journal
from nightschool.loop.nights import open_night, resolve
from nightschool.loop.progress import Silent


def test_it_tells_each_figure_and_how_it_grows() -> None:
    plain, told = os.fsync, list[str]()
    record = loopcost.measure(loopcost.Settings(tasks=40, pages=20, iterations=2), told.append)
    assert os.fsync is plain and len(told) == 5
    for name in ("rollout", "rollout fsync", "iteration", "iteration fsync", "iteration engine"):
        found = record.find(name, tasks=40, pages=20, iterations=2)
        assert found is not None and found.unit == "ms" and all(value > 0 for value in found.samples), name
    for by in ("tasks", "pages", "iterations"):
        growth = record.find("iteration growth", by=by)
        assert growth is not None and len(growth.samples) == 1


@pytest.mark.parametrize("pages", [0, 5])
def test_the_job_is_worked_on_as_a_real_one(pages: int) -> None:
    with made_job(40, pages, 4) as space:
        roles = {role: role for role in ("student", "maintainer", "proposer")}
        with open_night(space, resolve(space, {}), roles, people(), Silent()) as night:
            evolve(night)
        journal = Journal(space.journal)
        assert [event["accepted"] for event in journal.of("gate")] == [True, False, True, False]
        assert len(list((space.wiki / "patterns").glob("*.md"))) == pages + 4
