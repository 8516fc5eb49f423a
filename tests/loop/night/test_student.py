"""A student with files: read, glob and grep reach its task's own files and nothing else, whatever they are asked."""

from __future__ import annotations

import json
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.loop import tools
from nightschool.loop.graders import parse_grader
from nightschool.loop.suite import Task
from nightschool.loop.tools import Toolbox

HOSTILE = ["[", "[!", "[z-a]", "[[a]&&[b]]", "**", "../*", "*" * 60, "a*" * 30, "\\", "(?x", "[^]", "{a,b}", "~||--"]
TASK = Task("t", "Which?", parse_grader({"kind": "exact", "expected": "x"}), ("notes/a.txt", "b.csv"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite") / "files"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("the port is 8417\nand [brackets] (?x stay\n" + "a" * 200)
    (folder / "b.csv").write_bytes(b"name;port\r\nAlpha;\xff\n")
    (folder / "secret.txt").write_text("port 1")
    return folder


def box(root: Path) -> Toolbox:
    return Toolbox(root, TASK.files)


def test_read_shows_a_file(root: Path) -> None:
    assert "8417" in box(root).run("read", {"path": "notes/a.txt"}, 4000)


def test_a_long_file_is_cut_and_says_so(root: Path) -> None:
    assert "characters left out" in box(root).run("read", {"path": "notes/a.txt"}, 100)


def test_bytes_that_are_no_text_are_marked(root: Path) -> None:
    assert "\N{REPLACEMENT CHARACTER}" in box(root).run("read", {"path": "b.csv"}, 4000)


def test_glob_finds_listed_files_only(root: Path) -> None:
    assert box(root).run("glob", {"pattern": "*"}, 4000).split("\n") == ["notes/a.txt", "b.csv"]
    assert box(root).run("glob", {"pattern": "secret*"}, 4000) == "no file matches"


def test_grep_finds_plain_text_in_listed_files_only(root: Path) -> None:
    found = box(root).run("grep", {"pattern": "PORT"}, 4000)
    assert found.split("\n") == ["notes/a.txt:1: the port is 8417", "b.csv:1: name;port"]
    assert "a.txt:2" in box(root).run("grep", {"pattern": "[brackets] (?x"}, 4000)


@pytest.mark.parametrize("action", ["glob", "grep"])
@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_patterns_find_nothing_of_others(root: Path, action: str, pattern: str) -> None:
    assert "secret" not in box(root).run(action, {"pattern": pattern}, 4000)


@given(st.text(max_size=tools.PATTERN))
@settings(max_examples=200, deadline=None)
def test_any_pattern_is_answered(root: Path, pattern: str) -> None:
    for action in ("glob", "grep"):
        assert "secret" not in box(root).run(action, {"pattern": pattern}, 4000)


@pytest.fixture
def filed(toys: Any, words: Any) -> Any:
    """A toy whose val tasks come with a file each."""
    tasks = [dict(line, files=[f"{line['id']}.txt"]) for line in words.tasks["val"]]
    return toys({**words.tasks, "val": tasks}, files={f"{line['id']}.txt": "v-" + line["id"][4:] for line in tasks})


def act(action: str, **fields: Any) -> str:
    return json.dumps({"thought": "so", "action": action, **fields}, separators=(",", ":"))


def looks(request: Any) -> str:
    """Reads the file that is listed, then answers with it."""
    told = request.messages[-1].content
    if request.grammar is None:
        return "no idea"
    if "Files:" in told:
        return act("read", path=told.split("Files:\n")[1].split("\n")[0])
    return act("answer", answer=told)


def test_a_student_reads_and_answers(filed: Any) -> None:
    filed.student = looks
    filed.night()
    assert filed.events("baseline")[0]["score"] == 1.0
    trace = json.loads(filed.read("raw/iter-000/val/val-k0.json"))
    assert [(step["action"], step["args"], step["observation"]) for step in trace["steps"]] == [
        ("read", {"path": "val-k0.txt"}, "v-k0")
    ]
    assert trace["replies"] == {"total": 2, "valid": 2, "retried": 0, "degraded": 0}


@pytest.mark.parametrize("path", ["../suite.toml", "/etc/passwd", "val-k1.txt", "../val.jsonl"])
def test_another_file_is_not_in_the_grammar(filed: Any, path: str) -> None:
    from nightschool.engine.types import EngineError

    filed.student = lambda request: act("read", path=path)
    with pytest.raises(EngineError, match="not in the grammar"), filed.opened() as night:
        night.rollout(0, "val", night.suite.val[:1], night.state(0).skills)


def test_at_the_last_turn_only_an_answer_is_left(filed: Any) -> None:
    turns: deque[bool] = deque()

    def endless(request: Any) -> str:
        if request.grammar is None:
            return "no idea"
        turns.append('"read"' in request.grammar.lark or "read" in request.grammar.lark)
        return act("grep", pattern="x") if turns[-1] else act("answer", answer="tired")

    filed.student = endless
    filed.space.save(filed.space.config().changed(student_turns=3))
    with filed.opened() as night:
        traces = night.rollout(0, "val", night.suite.val[:1], night.state(0).skills)
    assert list(turns) == [True, True, False]
    assert traces[0].answer == "tired"


def test_a_task_whose_files_leave_no_room_is_refused_before_the_night(filed: Any) -> None:
    from nightschool.disk.errors import Problem

    filed.context = 300
    with pytest.raises(Problem, match="val-k0"), filed.opened():
        pass


def test_a_slow_tool_holds_no_other_student_up(filed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Toolbox.run
    ended: list[str] = []

    def slow(self: Toolbox, *args: Any) -> str:
        (name,) = self.files
        if name == "val-k0.txt":
            deadline = time.monotonic() + 10
            while len(ended) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
        ended.append(name)
        return real(self, *args)

    monkeypatch.setattr(Toolbox, "run", slow)
    filed.student = looks
    with filed.opened() as night:
        night.baseline()
    assert ended[-1] == "val-k0.txt"


def test_a_file_that_is_gone_is_a_persons_problem(filed: Any) -> None:
    from nightschool.disk.errors import Problem

    filed.student = looks
    with pytest.raises(Problem, match=r"val-k0\.txt"), filed.opened() as night:
        (filed.space.suite / "files" / "val-k0.txt").unlink()
        night.baseline()
