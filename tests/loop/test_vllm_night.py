"""A short night of the real small model on vLLM, inside the process of the command line, killed and taken up again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from nightschool.loop import skills
from nightschool.loop.journal import Journal
from nightschool.loop.report import status
from nightschool.loop.suite import materialise
from nightschool.loop.workspace import Workspace

MODEL = "smollm2-135m"
SIZES = {"train": 4, "val": 3, "test": 2}
FLAGS = ["--backend", "vllm", "--model", MODEL, "--iterations", "1", "--min-reads", "1", "--set", "max_turns=2"]

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make test-vllm"),
]


def nightschool(*words: str) -> subprocess.Popen[str]:
    """The command line in a process of its own, so that it can be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "nightschool.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def to_the_end(process: subprocess.Popen[str]) -> None:
    told, _ = process.communicate(timeout=900)
    assert process.returncode == 0, told


def traces(space: Workspace) -> dict[Path, tuple[int, int]]:
    """Every trace, and when it was made."""
    found = [path for split in SIZES for path in space.raw.glob(f"*/{split}/*.json")]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[Path, tuple[int, int]]]:
    """A night that was killed among its train tasks and then ran to its end; its first traces."""
    work = tmp_path_factory.mktemp("vllm")
    suite = materialise("runbook:3", work / "whole").folder
    for split, size in SIZES.items():
        lines = (suite / f"{split}.jsonl").read_text("utf-8").splitlines()
        (suite / f"{split}.jsonl").write_text("\n".join(lines[:size]) + "\n", "utf-8")
    space = Workspace(work / "job")
    to_the_end(nightschool("new", str(space.root), "--suite", str(suite)))
    killed = nightschool("evolve", str(space.root), *FLAGS)
    while not list(space.raw.glob("iter-001/train/*.json")):
        assert killed.poll() is None, killed.communicate()[0]
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    early = traces(space)
    to_the_end(nightschool("evolve", str(space.root), *FLAGS))
    return space, early


def test_the_night_is_complete_and_every_reply_valid(
    night: tuple[Workspace, dict[Path, tuple[int, int]]],
) -> None:
    record = status(night[0])
    assert (record["state"], record["backend"], record["resumes"]) == ("finished", "vllm", 1)
    assert record["test"]["tasks"] == SIZES["test"]
    assert record["replies"]["valid"] == record["replies"]["total"] >= 3
    assert record["edits"]["applied"] == record["edits"]["total"]


def test_every_task_is_done_and_none_twice(night: tuple[Workspace, dict[Path, tuple[int, int]]]) -> None:
    space, early = night
    after = traces(space)
    assert early and {path: after[path] for path in early} == early
    events = Counter((event["event"], event["k"]) for event in Journal(space.journal).events)
    assert max(events.values()) == 1
    for event, k in [one for one in events if one[0] in SIZES]:
        assert len(list((space.iteration(k) / event).glob("*.json"))) == SIZES[event]
    accepted = {event["skill"] for event in Journal(space.journal).of("gate") if event["accepted"]}
    assert set(skills.load(space.skills)) == accepted


def test_a_trace_tells_what_computed_it(night: tuple[Workspace, dict[Path, tuple[int, int]]]) -> None:
    space, _ = night
    for path in traces(space):
        engine = json.loads(path.read_text("utf-8"))["engine"]
        assert (engine["backend"], engine["dtype"], engine["device"]) == ("vllm", "float32", "cpu")
        assert {"torch", "transformers"} < set(engine["versions"])
