r"""Edits of a text by whole lines: what may be edited, the edits, the diff.

A line ends with `\n` and nothing else; other separators are characters like any other. A target is one whole
line that occurs once. All edits are found in the text as it was shown, then spliced in from its end, so that
none moves another. Where a text is kept is left to others.
"""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from nightschool.disk.errors import Problem

_LONGEST_SPAN = 200
_HEADING = re.compile(r" {0,3}(#{1,6})([ \t].*)?")
_UNDERLINED = re.compile(r" {0,3}(?![-*+>|]|\d+[.)])\S.*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class PatchError(Problem):
    """An edit that does not fit the text."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: `content` at the end of the text, or in the place of, or after, the line `target`."""

    op: Literal["append", "replace", "insert_after"]
    content: str
    target: str | None = None


def apply(text: str, edits: Sequence[Edit]) -> str:
    """`text` with all edits made, or a PatchError. Content is whole lines; to replace by "" is to remove."""
    if not edits:
        return text
    text = _ended(text)
    for start, end, content in reversed(_splices(text, edits)):
        text = text[:start] + content + text[end:]
    return text


def spans(text: str, *, closed: Collection[str]) -> list[str]:
    """The lines that an edit may have as its target, in order.

    Each occurs once in `text`, is not blank, has at most 200 characters and no control character, and stands
    outside front matter, headings, fenced blocks and the sections whose titles are in `closed`.
    """
    lines = _lines(text)
    count = Counter(lines)
    return [line for line in _open_lines(lines, closed) if count[line] == 1 and _is_plain(line)]


def unified(before: str, after: str, path: str) -> str:
    """The unified diff, as `patch` and git read it; empty if there is no difference."""
    old, new = ([line + "\n" for line in text.split("\n")] for text in (before, after))
    for lines in (old, new):
        last = lines.pop().removesuffix("\n")
        lines += [last] if last else []
    diff = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff)


def quote(text: str) -> str:
    """`text` with four spaces before each line, so that nothing in it can pass for a heading or an entry."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # to Markdown, a bare \r ends a line
    return "\n".join("    " + line for line in lines)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _lines(text: str) -> list[str]:
    return _ended(text).split("\n")[:-1]


def _splices(text: str, edits: Sequence[Edit]) -> list[tuple[int, int, str]]:
    """What goes where, ascending; at one place insertions come first and appends last, in their order."""
    starts: dict[str, list[int]] = {}
    length = 0
    for line in _lines(text):
        starts.setdefault(line, []).append(length)
        length += len(line) + 1
    placed: list[tuple[int, int, bool, str]] = []
    taken: set[int] = set()
    for edit in edits:
        is_append = edit.op == "append"
        start, end = (length, length) if is_append else _find(starts, edit)
        if is_append and edit.target is not None:
            raise PatchError("an append has a target", "leave the target out, or use insert_after")
        if not is_append and start in taken:
            raise PatchError(f"two edits have the target {_shown(edit.target)}", "make them one edit")
        taken.add(start)
        placed.append((end if edit.op == "insert_after" else start, end, is_append, _ended(edit.content)))
    placed.sort(key=itemgetter(0, 1, 2))
    return [(start, end, content) for start, end, _, content in placed]


def _find(starts: dict[str, list[int]], edit: Edit) -> tuple[int, int]:
    if edit.op not in ("replace", "insert_after"):
        raise PatchError(f"unknown operation {edit.op!r}", "use append, replace or insert_after")
    if edit.target is None:
        raise PatchError(f"{edit.op} has no target", "give one whole line of the text")
    found = starts.get(edit.target, [])
    if len(found) != 1:
        times = f"occurs {len(found)} times" if found else "does not occur"
        raise PatchError(f"{_shown(edit.target)} {times} as a whole line", "give a line that occurs exactly once")
    return found[0], found[0] + len(edit.target) + 1


def _shown(target: str | None) -> str:
    return repr(target if target is None or len(target) <= 80 else target[:79] + "…")


def _is_plain(line: str) -> bool:
    return bool(line.strip()) and len(line) <= _LONGEST_SPAN and not _CONTROL.search(line)


def _open_lines(lines: Sequence[str], closed: Collection[str]) -> Iterator[str]:
    titles = {title.strip("# \t").casefold() for title in closed}
    shut: int | None = None  # the level of the heading whose section is closed
    fence = ""
    number = _after_front_matter(lines)
    while number < len(lines):
        line = lines[number]
        number += 1
        if fence:
            if _closes(line, fence):
                fence = ""
        elif match := _FENCE.fullmatch(line):
            fence = match[1]
        elif heading := _heading(line, lines[number] if number < len(lines) else ""):
            level, title, height = heading
            number += height - 1
            if shut is None or level <= shut:
                shut = level if title.casefold() in titles else None
        elif shut is None:
            yield line


def _after_front_matter(lines: Sequence[str]) -> int:
    """Where the body starts; a front matter without an end takes all."""
    if not lines or lines[0].removeprefix("\ufeff").rstrip(" \t\r") != "---":
        return 0
    return next((n + 1 for n, line in enumerate(lines) if n and line.rstrip(" \t\r") == "---"), len(lines))


def _closes(line: str, fence: str) -> bool:
    match = _FENCE.fullmatch(line)
    return match is not None and match[1].startswith(fence) and not match[2].strip()


def _heading(line: str, following: str) -> tuple[int, str, int] | None:
    """Level, title and number of lines of the heading that begins here: `# Title`, or underlined."""
    line, following = line.rstrip("\r"), following.rstrip("\r")
    if match := _HEADING.fullmatch(line):
        return len(match[1]), (match[2] or "").strip("# \t"), 1
    if _UNDERLINED.fullmatch(line) and (match := _UNDERLINE.fullmatch(following)):
        return (1 if match[1][0] == "=" else 2), line.strip("# \t"), 2
    return None
