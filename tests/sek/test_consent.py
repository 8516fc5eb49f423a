"""A person's yes: only what is typed at the terminal of the process counts."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nightschool.sek import consent
from nightschool.sek.tree import Tree

Plant = Callable[..., Tree]
CORE = ("sek", "core", "FE-001")


def at_terminal(root: Path, answer: bytes, *arguments: str, early: bytes = b"") -> tuple[int, str]:
    """Run a command with a terminal of its own; `early` is typed before the question, `answer` after it."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(root)
            os.execv(sys.executable, [sys.executable, "-m", "nightschool.cli", *arguments])
        finally:
            os._exit(99)
    if early:
        os.write(terminal, early)
    shown, asked = b"", False
    while True:
        ready = select.select([terminal], [], [], 60)[0]
        assert ready, shown.decode()
        try:
            said = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not said:
            break
        shown += said
        if not asked and b"[yes/no]" in shown:
            asked = True
            os.write(terminal, answer)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    return status, shown.decode().replace("\r\n", "\n")


def test_a_typed_yes_promotes_and_a_typed_yes_revokes(plant: Plant) -> None:
    tree = plant()
    status, shown = at_terminal(tree.root, b"yes\n", *CORE)
    line = "- [FE-001] Buttons are drawn with the design system, never by hand."
    assert status == 0, shown
    assert f"+{line}\n" in shown and "Promote [FE-001] to Critical Rules?" in shown
    assert tree.read("AGENTS.md") == f"# Me\n\n## Critical Rules\n\n{line}\n"
    status, shown = at_terminal(tree.root, b"Yes \n", "sek", "revoke", "FE-001", "--reason", "old")
    assert status == 0 and f"-{line}\n" in shown and "FE-001" not in tree.read("AGENTS.md")
    assert not (tree.root / "wiki/rules/frontend.md").exists()  # nothing but a title was left of it


@pytest.mark.parametrize("answer", [b"no\n", b"y\n", b"\n", b"yes please\n", b"\x04", b"yes\x04"])
def test_anything_else_is_a_no(plant: Plant, answer: bytes) -> None:
    tree = plant()
    status, shown = at_terminal(tree.root, answer if answer != b"yes\x04" else b"yes\x04\x04", *CORE)
    assert status == 0 and "Nothing was changed" in shown
    assert tree.read("AGENTS.md") == "# Me\n"


def test_what_was_typed_before_the_question_does_not_count(plant: Plant) -> None:
    tree = plant()
    _, shown = at_terminal(tree.root, b"no\n", *CORE, early=b"yes\n")
    assert "Nothing was changed" in shown and tree.read("AGENTS.md") == "# Me\n"


@pytest.mark.parametrize("told", [{"input": "yes\nyes\nyes\n"}, {"stdin": subprocess.DEVNULL}], ids=["pipe", "nothing"])
def test_no_pipe_says_yes(plant: Plant, told: dict[str, object]) -> None:
    tree = plant()
    command = [sys.executable, "-m", "nightschool.cli", *CORE]
    done = subprocess.run(  # type: ignore[call-overload]
        command, cwd=tree.root, capture_output=True, text=True, start_new_session=True, **told
    )
    assert done.returncode == 2 and "there is no terminal to ask a person at" in done.stderr
    assert tree.read("AGENTS.md") == "# Me\n" and not (tree.root / "memory/log.jsonl").exists()


def test_no_flag_says_yes(plant: Plant) -> None:
    tree = plant()
    for flag in ("--yes", "-y", "--force"):
        command = [sys.executable, "-m", "nightschool.cli", *CORE, flag]
        done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, start_new_session=True)
        assert done.returncode == 2 and f"no such option: {flag}" in done.stderr.casefold()


def test_nothing_in_the_diff_can_hide() -> None:
    assert consent.visible("+a\x1b[2K\rb\u202e\tc\n") == "+a\\u{1b}[2K\\u{d}b\\u{202e}\tc\n"
