"""Lines of a Markdown text that speak for themselves, and text of others made fit to stand in one.

Front matter, fenced code and comments are shown to people but say nothing to us; a fence or comment that is never closed
is no fence, or one torn line would hide the rest of a file. What the lines mean is left to others.
"""

from __future__ import annotations

import re
import unicodedata

from nightschool.disk.errors import Problem

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_COMMENT = re.compile(r" {0,3}<!--")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
_TAGGED = re.compile(r"\[([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)\]")
_LABEL = re.compile(r"\b(expected|got|where|evidence)(\s*):", re.I)


def lines(text: str) -> list[str]:
    """The lines with their ends: joined they are the text. Only line feeds end a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def newline(text: str) -> str:
    """The line end that a text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def shown(rows: list[str]) -> list[bool]:
    """For each line, whether it stands outside of front matter, closed fences and closed comments."""
    said = [True] * len(rows)
    at = _front_matter(rows)
    said[:at] = [False] * at
    while at < len(rows):
        end = _closed(rows, at)
        if end is not None:
            said[at:end] = [False] * (end - at)
        at = end or at + 1
    return said


def heading(line: str) -> tuple[int, str] | None:
    """Level and title of a line `# Title`."""
    match = _HEADING.fullmatch(line.rstrip("\r\n"))
    return (len(match[1]), match[2] or "") if match else None


def one_line(text: str, name: str, longest: int) -> str:
    """A text of others as one line that can forge nothing: no control character, label, tag or comment in it."""
    spaced = "".join(" " if unicodedata.category(char) in ("Cc", "Zl", "Zp") else char for char in _BIDI.sub("", text))
    kept = "".join(char for char in spaced if unicodedata.category(char) not in ("Cs", "Co", "Cn"))
    plain = " ".join(kept.replace("·", ",").split())
    plain = _LABEL.sub(r"\1 -", _TAGGED.sub(r"\1", plain)).replace("<!--", "< !--").replace("-->", "-- >")
    if len(plain) > longest:
        what = f"{name} is {len(plain)} characters long, at most {longest} are kept"
        raise Problem(what, "say it shorter; where it happened may name a file that has the rest")
    return plain


def _front_matter(rows: list[str]) -> int:
    """Where the body starts."""
    if not rows or rows[0].removeprefix("\ufeff").rstrip() != "---":
        return 0
    return next((n + 1 for n, row in enumerate(rows) if n and row.rstrip() == "---"), 0)


def _closed(rows: list[str], at: int) -> int | None:
    """The line after the fence or comment that begins here; None if none does, or if it has no end."""
    row = rows[at].rstrip("\r\n")
    if fence := _FENCE.fullmatch(row):
        return next((n + 1 for n in range(at + 1, len(rows)) if _closes(rows[n], fence[1])), None)
    if _COMMENT.match(row):
        return next((n + 1 for n in range(at, len(rows)) if "-->" in rows[n]), None)
    return None


def _closes(row: str, fence: str) -> bool:
    match = _FENCE.fullmatch(row.rstrip("\r\n"))
    return match is not None and match[1].startswith(fence) and not match[2].strip()
