"""The real small model's short night, killed in the middle with SIGKILL and taken up again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightschool.loop import skills, wiki
from nightschool.loop.journal import Journal
from nightschool.loop.report import status
from nightschool.loop.suite import materialise
from nightschool.loop.workspace import Workspace

MODEL = "smollm2-135m"
SIZES = {"train": 6, "val": 4, "test": 4}
FLAGS = ["--model", MODEL, "--backend", "transformers", "--iterations", "1", "--min-reads", "1", "--set", "max_turns=2"]

pytestmark = pytest.mark.model


def nightschool(*words: str) -> subprocess.Popen[str]:
    """The command line in a process of its own, so that it can be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "nightschool.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def to_the_end(process: subprocess.Popen[str]) -> None:
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0, told


def kill_when(process: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    while not ready():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def stamps(space: Workspace) -> dict[Path, tuple[int, int]]:
    """Every trace, and when it was made."""
    found = [path for split in SIZES for path in space.raw.glob(f"*/{split}/*.json")]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[Path, tuple[int, int]]]:
    """A night that was killed among its train tasks, then at its gate, and then ran to its end; its first traces."""
    work = tmp_path_factory.mktemp("real")
    suite = materialise("style:3", work / "whole").folder
    for split, size in SIZES.items():
        lines = (suite / f"{split}.jsonl").read_text("utf-8").splitlines()
        (suite / f"{split}.jsonl").write_text("\n".join(lines[:size]) + "\n", "utf-8")
    space = Workspace(work / "job")
    to_the_end(nightschool("new", str(space.root), "--suite", str(suite)))
    command = ["evolve", str(space.root), *FLAGS]
    kill_when(nightschool(*command), lambda: bool(list(space.raw.glob("iter-001/train/*.json"))))
    early = stamps(space)
    kill_when(nightschool(*command), lambda: Journal(space.journal).find("proposal", 1) is not None)
    to_the_end(nightschool(*command))
    return space, early


def test_the_night_is_complete(night: Any) -> None:
    record = status(night[0])
    assert record["state"] == "finished"
    assert record["resumes"] == 2
    assert record["test"]["tasks"] == SIZES["test"]


def test_every_reply_is_valid_and_every_edit_is_applied(night: Any) -> None:
    record = status(night[0])
    assert record["replies"]["valid"] == record["replies"]["total"] >= 3
    assert record["edits"]["applied"] == record["edits"]["total"]


def test_every_task_is_done_and_none_twice(night: Any) -> None:
    space, early = night
    after = stamps(space)
    assert {path: after[path] for path in early} == early
    events = Counter((event["event"], event["k"]) for event in Journal(space.journal).events)
    assert max(events.values()) == 1
    for event, k in [one for one in events if one[0] in SIZES]:
        assert len(list((space.iteration(k) / event).glob("*.json"))) == SIZES[event]


def test_no_skill_stands_that_the_gate_did_not_let_in(night: Any) -> None:
    space, _ = night
    accepted = {event["skill"] for event in Journal(space.journal).of("gate") if event["accepted"]}
    assert set(skills.load(space.skills)) == accepted
    assert not space.candidate.exists()


def test_no_edit_of_the_wiki_is_lost(night: Any) -> None:
    space, _ = night
    plan = json.loads((space.iteration(1) / "study.json").read_text("utf-8"))
    assert plan["pages"]
    for page in plan["pages"]:
        assert wiki.load(space.wiki).page(page["id"]).text == page["text"]


def test_every_iteration_is_told_once(night: Any) -> None:
    space, _ = night
    for log in ("skill-impact.md", "logs.md"):
        assert [heading.split(" | ")[0] for heading, _ in wiki.entries((space.wiki / log).read_text("utf-8"))] == [
            "iteration 1"
        ]
