"""A person's yes: typed at the terminal of this process, and in no other way.

The question goes to /dev/tty and the answer comes from there: no flag, pipe, script or tool can say it. What was typed
before the question stood there does not count. What the answer allows is core.py's.
"""

from __future__ import annotations

import os
import re
import termios
import unicodedata

from nightschool.disk.errors import Problem

TERMINAL = "/dev/tty"
YES = "yes"
LONGEST_ANSWER = 1_000
_SHOWN = re.compile(r"[^\n\t]")


def typed_yes(text: str, question: str) -> bool:
    """Show `text`, ask the question, and tell whether the answer is `yes` in full; a Problem where nobody can type."""
    advice = "run it yourself in a terminal: only a yes that a person types there counts"
    try:
        fd = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise Problem("there is no terminal to ask a person at", advice) from error
    try:
        if not os.isatty(fd):
            raise Problem(f"{TERMINAL} is no terminal", advice)
        _write(fd, f"{visible(text).rstrip()}\n\n{visible(question)}")
        termios.tcflush(fd, termios.TCIFLUSH)
        _write(fd, " [yes/no] ")
        answer = os.read(fd, LONGEST_ANSWER)
        if not answer.endswith(b"\n"):
            _write(fd, "\n")
        return answer.endswith(b"\n") and answer.strip().decode(errors="replace").casefold() == YES
    finally:
        os.close(fd)


def visible(text: str) -> str:
    """The text with every character that could hide or rewrite a part of it spelled out."""
    return _SHOWN.sub(lambda match: _spelled(match[0]), text)


def _spelled(char: str) -> str:
    hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return f"\\u{{{ord(char):x}}}" if hidden else char


def _write(fd: int, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(fd, data) :]
