"""Ctrl-C and SIGTERM in a night, the second of them while a library computes and Python hears nothing."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from nightschool.cli import main, output

BUSY = r"""
import hashlib, os, sys
from nightschool.cli import main
from nightschool.engine.backends.scripted import ScriptedEngine

step, steps = ScriptedEngine.step, iter(range(1000))

def busy(engine):
    if next(steps) == 1:
        os.write(1, b"busy\n")
        hashlib.pbkdf2_hmac("sha256", b"", b"", 5 * 10**7)  # half a minute outside of Python
    return step(engine)

ScriptedEngine.step = busy
sys.exit(main(sys.argv[1:]))
"""
STOPPED = "stopped; go on with: nightschool evolve ws"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Our end of a terminal and theirs."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def read(fd: int) -> bytes:
    """All that is written to the terminal until its other end is closed."""
    text = b""
    while True:
        try:
            chunk = os.read(fd, 65536)
        except OSError:
            return text
        if not chunk:
            return text
        text += chunk


def whole(journal: Path) -> bool:
    return all(isinstance(json.loads(line), dict) for line in journal.read_text("utf-8").splitlines())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_stops_a_library_in_the_middle_of_its_work(
    place: Path, run: Run, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", BUSY, "evolve", "ws"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "busy\n"
        child.send_signal(number)
        told = next(line for line in child.stderr if line.startswith("stopping"))
        assert told == "stopping after this step; Ctrl-C again stops at once\n"
        child.send_signal(number)
        assert child.stderr.read() == f"{STOPPED}\n"
        assert child.wait(60) == 130
    assert whole(place / "ws" / "journal.jsonl") and not list((place / "ws").rglob(".*.tmp"))
    went_on = run("evolve", "ws")
    assert went_on.code == 0 and "resuming at iteration" in went_on.err


def test_on_a_terminal_the_cursor_is_shown_again(place: Path, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    command = [sys.executable, "-c", BUSY, "evolve", "ws"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as child:
        os.close(theirs)
        assert child.stdout is not None and child.stdout.readline() == "busy\n"
        child.send_signal(signal.SIGINT)
        shown = b""
        while b"stopping after this step" not in shown:
            shown += os.read(ours, 65536)
        child.send_signal(signal.SIGINT)
        shown += read(ours)
        assert child.wait(60) == 130
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
    assert shown.decode().rstrip().endswith(STOPPED) and b"Traceback" not in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_model_loads_stops_at_once(place: Path, number: signal.Signals) -> None:
    busy = BUSY.replace("ScriptedEngine.step = busy", "import nightschool.engine.backends.scripted as s; s.load = busy")
    busy = busy.replace("def busy(engine):", "def busy(*_, **__):").replace("next(steps) == 1", "True")
    command = [sys.executable, "-c", busy, "evolve", "ws"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "busy\n"
        child.send_signal(number)
        assert child.stderr.read().endswith(f"{STOPPED}\n")
        assert child.wait(60) == 130


def test_other_commands_stop_without_a_traceback(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nightschool.loop.evaluate.evaluate", pressed)
    assert main(["eval", "ws"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "typed", "told"),
    [
        ("/usr/lib/nightschool/cli/__main__.py", ["python3", "-m", "nightschool.cli"], "python3 -m nightschool.cli"),
        (".venv/bin/nightschool", [], ".venv/bin/nightschool"),
        ("HERE/.venv/bin/nightschool", [], ".venv/bin/nightschool"),
        ("/opt/my tools/nightschool", [], "'/opt/my tools/nightschool'"),
        ("HERE/onpath/nightschool", [], "nightschool"),
        ("/usr/bin/pytest", [], "nightschool"),
    ],
)
def test_advice_names_the_program_as_it_was_started(
    place: Path, monkeypatch: pytest.MonkeyPatch, argv: str, typed: list[str], told: str
) -> None:
    (place / "onpath").mkdir()
    (place / "onpath" / "nightschool").write_text("")
    (place / "onpath" / "nightschool").chmod(0o755)
    monkeypatch.setenv("PATH", str(place / "onpath"))
    monkeypatch.setattr(sys, "argv", [argv.replace("HERE", str(place))])
    monkeypatch.setattr(sys, "orig_argv", typed)
    output.program.cache_clear()
    try:
        assert output.command("evolve", "my ws") == f"{told} evolve 'my ws'"
        assert output.as_started("`nightschool skills list` shows them") == f"`{told} skills list` shows them"
        assert output.as_started("pip install nightschool[cpu]") == "pip install nightschool[cpu]"
    finally:
        output.program.cache_clear()
