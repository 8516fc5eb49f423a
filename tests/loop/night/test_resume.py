"""What a night may be resumed with, and what a damaged or foreign journal leads to."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.disk.locks import Lock


class Stopped(BaseException):
    """Stands for a kill at a place that a test chose."""


@pytest.fixture
def stopped(toy: Any, words: Any) -> Any:
    """A night that was killed after its first train run."""

    def stop(record: Any) -> None:
        if record["event"] == "train":
            raise Stopped

    toy.watcher.event = stop
    toy.proposals += [words.made("helps", "k0")]
    with pytest.raises(Stopped):
        toy.night(seed=3)
    del toy.watcher.event
    return toy


def test_the_same_command_goes_on(stopped: Any) -> None:
    stopped.night(seed=3)
    assert [event["event"] for event in stopped.journal.events].count("train") == 1
    assert stopped.skills() == ["helps"]


def test_without_flags_it_goes_on_as_well(stopped: Any) -> None:
    stopped.night()
    assert stopped.space.config().seed == 3


def test_what_the_journal_holds_is_not_asked_again(stopped: Any) -> None:
    asked = len(stopped.prompts("student"))
    stopped.night()
    assert len(stopped.prompts("student")) == asked + 4 + 4 + 4, "val, and test twice"


@pytest.mark.parametrize(
    "key,value",
    [
        ("seed", 4),
        ("iterations", 9),
        ("gate", "tie"),
        ("control", "placebo"),
        ("min_reads", 1),
        ("student_temperature", 0.5),
        ("backend", "mlx"),
        ("models", {"student": "other"}),
    ],
)
def test_another_flag_is_refused_by_its_name(stopped: Any, key: str, value: Any) -> None:
    with pytest.raises(Problem, match=key):
        stopped.night(**{key: value})


def test_a_refusal_changes_nothing(stopped: Any) -> None:
    before = stopped.read("config.json"), stopped.read("journal.jsonl")
    with pytest.raises(Problem):
        stopped.night(seed=4)
    assert (stopped.read("config.json"), stopped.read("journal.jsonl")) == before


def test_another_suite_is_refused(stopped: Any, words: Any) -> None:
    stopped.write("suite/suite.toml", words.toml.replace("Answer.", "Reply."))
    with pytest.raises(Problem, match="suite changed since this night began"):
        stopped.night()


def test_other_roles_are_refused(stopped: Any) -> None:
    from nightschool.loop.nights import open_night, resolve

    roles = {"student": "student", "maintainer": "student", "proposer": "proposer"}
    config = resolve(stopped.space, {})
    with (
        pytest.raises(Problem, match="roles changed"),
        open_night(stopped.space, config, roles, stopped.open_engine, stopped.watcher),
    ):
        pass


def test_a_finished_night_takes_any_flag(stopped: Any) -> None:
    stopped.night()
    stopped.night(seed=4, iterations=2)
    assert stopped.space.config().seed == 4


def test_resumes_are_counted(stopped: Any) -> None:
    from nightschool.loop.report import status

    stopped.night()
    assert status(stopped.space)["resumes"] == 1


def test_a_torn_last_line_is_cut_off(stopped: Any) -> None:
    whole = stopped.read("journal.jsonl")
    stopped.write("journal.jsonl", whole + whole.splitlines()[-1][:40])
    stopped.night()
    assert stopped.read("journal.jsonl").startswith(whole)
    assert stopped.events("end")


def test_a_corrupt_line_in_the_middle_is_refused(stopped: Any) -> None:
    lines = stopped.read("journal.jsonl").splitlines()
    stopped.write("journal.jsonl", "\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    with pytest.raises(Problem, match=r"journal\.jsonl:2"):
        stopped.night()


def test_a_line_that_is_missing_is_refused(stopped: Any) -> None:
    lines = stopped.read("journal.jsonl").splitlines()
    stopped.write("journal.jsonl", "\n".join([lines[0], *lines[2:]]) + "\n")
    with pytest.raises(Problem, match="event 1 expected"):
        stopped.night()


@pytest.mark.parametrize("file", ["journal.jsonl", "config.json"])
def test_a_newer_schema_is_refused(stopped: Any, file: str) -> None:
    stopped.write(file, stopped.read(file).replace('"schema": 1', '"schema": 2').replace('"schema":1', '"schema":2'))
    with pytest.raises(Problem, match="schema 2, this version reads 1"):
        stopped.night()


def test_a_trace_from_a_newer_schema_is_refused(stopped: Any) -> None:
    path = "raw/iter-001/train/train-k0.json"
    stopped.write(path, stopped.read(path).replace('"schema": 1', '"schema": 2'))
    with pytest.raises(Problem, match="schema 2"):
        stopped.night()


def test_a_plan_that_is_not_the_journals_is_refused(toy: Any, words: Any) -> None:
    def stop(record: Any) -> None:
        if record["event"] == "study":
            raise Stopped

    toy.watcher.event = stop
    with pytest.raises(Stopped):
        toy.night()
    del toy.watcher.event
    plan = "raw/iter-001/study.json"
    toy.write(plan, toy.read(plan).replace("look it up", "look away"))
    with pytest.raises(Problem, match="not the plan that the journal tells of"):
        toy.night()


def test_an_unknown_key_in_the_configuration_is_refused(stopped: Any) -> None:
    record = json.loads(stopped.read("config.json"))
    stopped.write("config.json", json.dumps({**record, "moonlight": 1}))
    with pytest.raises(Problem, match="moonlight"):
        stopped.night()


def test_two_nights_at_once_are_refused_with_the_holders_name(toy: Any) -> None:
    hold = "import sys, time\nfrom pathlib import Path\nfrom nightschool.disk.locks import Lock\n"
    hold += "with Lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(toy.space.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Problem, match=f"held by pid {holder.pid}, host "):
            toy.night()
    toy.night()
    assert toy.events("end")


def test_what_a_killed_night_left_is_swept_and_nothing_else(toy: Any) -> None:
    left = [".0123456789abcdef.tmp", "raw/.0123456789abcdef.tmp", "wiki/patterns/.0123456789abcdef.tmp"]
    foreign = "node_modules/.0123456789abcdef.tmp"
    for path in [*left, foreign]:
        toy.write(path, "half")
    toy.night()
    assert [path for path in [*left, foreign] if (toy.space.root / path).exists()] == [foreign]


def test_skills_that_were_put_aside_come_back(toy: Any, words: Any) -> None:
    toy.write("skills/mine/SKILL.md", words.by_hand("mine", "k0"))
    toy.space.skills.rename(toy.space.root / ".skills.aside.tmp")
    toy.night()
    assert toy.skills() == ["mine"]
    assert toy.events("baseline")[0]["score"] == 0.25


def test_the_lock_is_given_back_after_an_error(toy: Any) -> None:
    toy.student = lambda request: 1 / 0
    with pytest.raises(ZeroDivisionError):
        toy.night()
    with Lock(toy.space.lock):
        pass
