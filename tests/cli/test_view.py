"""The board and the summary at several widths, the lines elsewhere, and what a night prints through the command line."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from tests.cli.conftest import Run

from nightschool.cli import figures
from nightschool.cli.board import Board
from nightschool.cli.summary import summarised
from nightschool.cli.view import Lines
from nightschool.engine.types import Completion, Usage

START = {"event": "night", "k": 4, "iterations": 3, "roles": {"student": "tiny"}}
KEPT = {"action": "create", "skill": "house-style", "score": 0.75, "accepted": True}
EVENTS: list[dict[str, Any]] = [
    START,
    {"event": "baseline", "k": 4, "score": 0.25, "seconds": 10.0},
    {"event": "study", "k": 5, "pages": ["tags"], "log": "", "seconds": 40.0},
    {"event": "settled", "k": 5, **KEPT, "reason": "val 0.750 is above the best so far, 0.250", "seconds": 60.0},
]


def drawn(thing: RenderableType, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with console.capture() as text:
        console.print(thing)
    return text.get().splitlines()


@pytest.fixture
def board() -> Board:
    now = iter(range(0, 10**6, 5))
    shown = Board("ws", lambda: float(next(now)))
    shown.begin(EVENTS[:1])
    for event in EVENTS[1:]:
        shown.event(event)
    shown.stage(6, "train", 16)
    shown.tick(4, 120)
    return shown


def test_the_board_tells_where_the_night_is(board: Board) -> None:
    text = "\n".join(drawn(board.render(), 80))
    assert "nightschool ws tiny" in text and "iteration 2 of 3" in text
    assert "working on train" in text and re.search(r"4/16  \d+ tokens/s", text)
    assert "0.250 → 0.750   ▃▇" in text
    assert "✓ kept: create house-style, val 0.750, above the best so far, 0.250" in text
    assert " left" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_nothing_is_wider_than_the_terminal(board: Board, width: int) -> None:
    lines = drawn(board.render(), width)
    assert {len(line) for line in lines} == {width}
    assert len(lines) < 20


def test_a_resumed_night_counts_what_was_done_before() -> None:
    board = Board("ws", lambda: 0.0)
    board.begin(EVENTS)
    text = "\n".join(drawn(board.render(), 80))
    assert "1 min 50 s, 3 min left" in text and "0.250 → 0.750" in text


def test_lines_tell_a_resumed_night_and_a_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().begin(EVENTS[:1])
    assert capsys.readouterr().err == ""
    Lines().begin(EVENTS)
    assert capsys.readouterr().err.splitlines() == [
        "[4] baseline: val 0.250",
        "[5] wiki: tags",
        "[5] kept: create house-style, val 0.750, above the best so far, 0.250",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"thought":"so","action":"read_file","path":"traces/t1"}', "reads traces/t1 (41 tokens, 1 min 05 s)"),
        (
            '{"thought":"so","action":"finish","proposal":{"action":"no_action","reason":"x"}}',
            "finishes with no_action",
        ),
        ('{"create":[],"log":"x"}', "replies (41 tokens, 1 min 05 s)"),
    ],
)
def test_lines_tell_each_turn(capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    Lines().turn(3, "proposer", 2, Completion(text, "stop", Usage(generated_tokens=41), seconds=65.2))
    assert capsys.readouterr().err.startswith(f"[3]   proposer, turn 2: {told}")


def test_a_turn_may_be_cut_off_and_a_server_may_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().turn(3, "maintainer", 1, Completion('{"crea', "length", Usage(generated_tokens=None), valid=False))
    assert capsys.readouterr().err == "[3]   maintainer, turn 1: a reply that was cut off (0 s)\n"


def test_the_board_counts_turns(board: Board) -> None:
    board.stage(6, "propose", 1)
    board.turn(6, "proposer", 2, Completion("{}", "stop", Usage()))
    assert "proposing a change, turn 3" in "\n".join(drawn(board.render(), 80))


def test_lines_and_board_tell_why_a_reply_went_back(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"event": "proposal", "k": 6, "refused": ['the text "---" has no letter', "x" * 300]}
    Lines().event(event)
    board.event(event)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == '[6] the proposer\'s reply went back: the text "---" has no letter'
    assert told[1].endswith("x…") and len(told[1]) < 150
    assert 'the proposer\'s reply went back: the text "---" has' in "\n".join(drawn(board.render(), 80))


def test_data_goes_to_stdout_and_talk_to_stderr(place: Path, run: Run) -> None:
    ran = run("evolve", "ws", "--json")
    record = json.loads(ran.out)
    assert (ran.code, record["state"], len(record["iterations"])) == (0, "finished", 1)
    assert ran.err.startswith("loading tiny with scripted") and "[0] baseline: val 0.000\n" in ran.err
    assert "[1] studying the traces\n[1]   maintainer, turn 1: replies (" in ran.err
    assert re.search(r"\[1\]   proposer, turn 1: reads traces/train-\d .*\n\[1\]   proposer, turn 2: ", ran.err)
    assert json.loads(run("status", "ws", "--json").out) == record
    text = run("status", "ws", "--watch").out  # no night runs, so it ends
    assert text.startswith("toy (./suite)  tiny · gate strict") and "undo" not in text
    assert not any(line.endswith(" ") for line in text.splitlines()) and "\x1b" not in text


@pytest.mark.parametrize(
    "command", ["trace ws", "skills list ws", "skills validate ws", "eval ws --split val", "status ws"]
)
def test_each_command_that_shows_data_has_json(place: Path, run: Run, command: str) -> None:
    assert run("evolve", "ws").code == 0
    json.loads(run(*command.split(), "--json").out)


def test_the_summary_shows_what_was_kept_and_how_to_undo_it() -> None:
    record: dict[str, Any] = {
        "state": "finished",
        "ended": "val is perfect",
        "suite": "./mine",
        "suite_name": "desk",
        "planned": 3,
        "control": "none",
        "seed": 1,
        "gate": "strict",
        "model": "tiny",
        "baseline": 0.25,
        "best": 0.75,
        "injected": 812.4,
        "seconds": 3723.0,
        "iterations": [{"k": 5, **KEPT, "reason": "val 0.750 is above the best so far, 0.250"}],
        "replies": {"total": 4, "valid": 4, "retried": 1, "degraded": 0},
        "test": {"tasks": 4, "first": 0.25, "final": 0.5, "delta": 0.25, "ci95": [0.0, 0.5], "p_value": 0.5},
        "tokens": {"prompt": 2000, "cached": 500, "generated": 70},
    }
    text = "\n".join(line.rstrip() for line in drawn(summarised("ws", record), 80))
    assert "✓ kept" in text and 'nightschool skills revoke house-style ws --reason "..."' in text
    assert "test   0.250 → 0.500  gain +0.250, 95% interval +0.000 to +0.500, p 0.500" in text
    assert "desk (./mine)  tiny · gate strict" in text and "1 of 3 iterations" in " ".join(text.split())
    assert "1 h 02 min" in text and "25% from the cache" in text and "4 of 4" in text
    for width in (40, 60):
        assert max(map(len, drawn(summarised("ws", record), width))) <= width
    revoked = {**record, "iterations": [{**item, "revoked": True} for item in record["iterations"]]}
    text = "\n".join(drawn(summarised("ws", revoked), 80))
    assert "✗ revoked" in text and "kept" not in text and "undo" not in text


def test_figures() -> None:
    assert figures.sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert [figures.clock(n) for n in (9, 61, 3720)] == ["9 s", "1 min 01 s", "1 h 02 min"]
    assert [figures.chance(p) for p in (0.0335, 0.0002)] == ["0.034", "< 0.001"]
    assert [figures.about(n) for n in (9, 61, 3720)] == ["9 s", "1 min", "1 h 02 min"]


@pytest.mark.parametrize(("changes", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["colour", "NO_COLOR"])
def test_on_a_terminal_the_night_is_drawn(place: Path, changes: dict[str, str], coloured: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **changes}
    command = [sys.executable, "-m", "nightschool.cli", "evolve", "ws"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as child:
        os.close(theirs)
        text = b""
        while chunk := _read(ours):
            text += chunk
    os.close(ours)
    assert child.returncode == 0
    plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", text).decode()
    assert "╭─ nightschool ws" in plain and "all iterations are done" in plain
    assert (re.search(rb"\x1b\[([0-9]+;)*3[0-7]m", text) is not None) == coloured


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # the other end is closed
        return b""
