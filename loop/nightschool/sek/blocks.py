"""Markdown text -> its blocks, without losing a byte: `"".join(block.text for block in blocks(text)) == text`.

markdown-it-py says where a block begins and ends, so a `#` in a fence is no heading and a table is one block. Beyond it:
front matter is a block; a pair of tags on lines of their own (`<rules>` ... `</rules>`) is one block with all between; a
fence that is never closed ends before the next heading that stands free, so that it does not swallow the file; a line
`=== title ===` is a heading of level 0, as some tools write them; a fence shown inside of a fence of the same marks belongs
to it. Blank lines are blocks of their own. What a block says is left to others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Kind = Literal[
    "front", "heading", "paragraph", "fence", "code", "table", "list", "quote", "html", "tag", "rule", "blank", "other"
]
_KINDS: dict[str, Kind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "fence": "fence",
    "code_block": "code",
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "blockquote_open": "quote",
    "html_block": "html",
    "hr": "rule",
}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_BANNER = re.compile(r" {0,3}={3,} +(?P<title>\S.*?) +={3,}[ \t]*")
_FREE_HEADING = re.compile(r"#{1,6}[ \t]+\S.*")
_OPEN_TAG = re.compile(r" {0,3}<(?P<name>[A-Za-z][\w:.-]*)(?:\s[^<>]*)?>[ \t]*")
_MARKS = re.compile(r"^[ \t]*#{1,6}[ \t]+|[ \t]+#+[ \t]*$")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "area", "base", "col", "embed", "source", "wbr"})


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a text; `start` and `end` are its first and last line, counted from 1."""

    kind: Kind
    level: int
    """Of a heading 0 (`=== title ===`) to 6, else 0."""
    text: str
    start: int
    end: int
    torn: bool = False
    """A fence without an end."""

    @property
    def title(self) -> str:
        """What a heading says."""
        first = _bare(self.text.splitlines()[0]) if self.text.strip() else ""
        banner = _BANNER.fullmatch(first)
        return banner["title"] if banner else _MARKS.sub("", first).strip()


@dataclass(frozen=True, slots=True)
class _Span:
    kind: Kind
    level: int
    start: int
    end: int
    torn: bool = False
    again: bool = False
    """Markdown sees it otherwise, so what follows must be read anew."""


def lines(text: str) -> list[str]:
    r"""The lines of a text with their ends; only `\n`, `\r\n` and `\r` end one."""
    return _LINE.findall(text)


def blocks(text: str, first: int = 1) -> list[Block]:
    """The blocks of a text whose first line has the number `first`."""
    rows = lines(text)
    found = []
    for span in _filled(rows):
        content = "".join(rows[span.start : span.end])
        found.append(Block(span.kind, span.level, content, first + span.start, first + span.end - 1, span.torn))
    return found


def inside(block: Block) -> tuple[str, list[Block], str]:
    """A tag block taken apart: the line that opens it, the blocks between, and the line that closes it."""
    rows = lines(block.text)
    close = max(number for number, row in enumerate(rows) if row.strip())
    opening, closing = rows[0], "".join(rows[close:])
    return opening, blocks("".join(rows[1:close]), block.start + 1), closing


def items(block: Block) -> list[Block]:
    """The items of a list, each whole with all that is nested in it; together they are the list."""
    rows = lines(block.text)
    tokens = _parsed("".join(rows))
    starts = [token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1]
    if not starts:
        return [block]
    starts[0] = 0
    ends = [*starts[1:], len(rows)]
    return [
        Block("list", 0, "".join(rows[a:b]), block.start + a, block.start + b - 1)
        for a, b in zip(starts, ends, strict=True)
    ]


def _filled(rows: Sequence[str]) -> Iterator[_Span]:
    """The spans of a text, with what lies between them."""
    at = 0
    for span in _spans(rows):
        yield from _between(rows, at, span.start)
        yield span
        at = span.end
    yield from _between(rows, at, len(rows))


def _between(rows: Sequence[str], start: int, end: int) -> Iterator[_Span]:
    """Blank lines, and what Markdown makes no block of (link definitions), in runs."""
    while start < end:
        blank = not rows[start].strip()
        stop = next((n for n in range(start, end) if (not rows[n].strip()) != blank), end)
        yield _Span("blank" if blank else "other", 0, start, stop)
        start = stop


def _spans(rows: Sequence[str]) -> Iterator[_Span]:
    at = _front(rows)
    if at:
        yield _Span("front", 0, 0, at)
    while at < len(rows):
        for span in _pass(rows, at):
            yield span
            at = span.end
            if span.again:
                break
        else:
            return


def _front(rows: Sequence[str]) -> int:
    """Lines of front matter, with both of its fences."""
    if not rows or _bare(rows[0]).removeprefix("\ufeff").rstrip() != "---":
        return 0
    end = next((n for n, row in enumerate(rows[1:], start=1) if _bare(row).rstrip() in ("---", "...")), 0)
    keys = [row for row in rows[1:end] if row.strip() and not row.startswith((" ", "\t", "#", "-"))]
    return end + 1 if end and all(":" in row for row in keys) else 0


def _pass(rows: Sequence[str], at: int) -> Iterator[_Span]:
    """The spans from line `at` on, as one reading gives them."""
    tokens = _parsed("".join(rows[at:]))
    fences = {token.map[0] + at: token.map[1] + at for token in tokens if token.type in ("fence", "code_block")}
    fenced = {n for first, last in fences.items() for n in range(first, last)}
    for token in tokens:
        kind = _KINDS.get(token.type)
        if kind is None or token.level or token.map is None:
            continue
        start, end = token.map[0] + at, token.map[1] + at
        while end > start + 1 and not rows[end - 1].strip() and kind != "fence":
            end -= 1
        if kind == "html" and (close := _closing(rows, start, fenced)):
            yield _Span("tag", 0, start, close + 1, again=True)
        elif kind == "fence" and (stop := _nested(rows, start, end, token.markup, fences)):
            yield _Span("fence", 0, start, stop, again=True)
        elif kind == "fence" and (stop := _torn(rows, start, end, token.markup)):
            yield _Span("fence", 0, start, stop, torn=True, again=True)
        else:
            yield from _split_banner(rows, kind, _level(rows, token, start), start, end)


def _split_banner(rows: Sequence[str], kind: Kind, level: int, start: int, end: int) -> Iterator[_Span]:
    """A span; a paragraph that begins with `=== title ===` is a heading and the rest."""
    if kind in ("paragraph", "html") and _BANNER.fullmatch(_bare(rows[start])):
        yield _Span("heading", 0, start, start + 1)
        start += 1
    if start < end:
        yield _Span(kind, level, start, end)


def _level(rows: Sequence[str], token: Any, start: int) -> int:
    return int(token.tag[1:]) if token.type == "heading_open" else 0


def _closing(rows: Sequence[str], start: int, fenced: set[int]) -> int:
    """The line that closes the tag opened alone on line `start`; 0 if none does."""
    opened = _OPEN_TAG.fullmatch(_bare(rows[start]))
    if not opened or opened["name"].lower() in _VOID:
        return 0
    name = re.escape(opened["name"])
    close = re.compile(rf" {{0,3}}</{name}\s*>[ \t]*")
    again = re.compile(rf" {{0,3}}<{name}(?:\s[^<>]*)?>[ \t]*")
    depth = 1
    for number in range(start + 1, len(rows)):
        if number in fenced:
            continue
        row = _bare(rows[number])
        depth += bool(again.fullmatch(row)) - bool(close.fullmatch(row))
        if not depth:
            return number
    return 0


def _nested(rows: Sequence[str], start: int, end: int, markup: str, fences: Mapping[int, int]) -> int:
    """Where a fence really ends that shows a fence of its own marks, and so seems to end with that one; 0 if none."""
    if not any(_fence_depth(rows[n], markup) > 0 for n in range(start + 1, end - 1)):
        return 0
    depth = 1
    for number in range(start + 1, len(rows)):
        depth += _fence_depth(rows[number], markup)
        if not depth:  # there Markdown sees another fence begin
            return number + 1 if number >= end and number in fences else 0
    return 0


def _fence_depth(row: str, markup: str) -> int:
    """1 for a line that opens a fence of these marks with a language, -1 for one that closes it."""
    bare = row.strip()
    if not bare.startswith(markup) or bare[len(markup) : len(markup) + 1] == markup[0]:
        return 0
    rest = bare[len(markup) :]
    return -1 if not rest else int(rest.strip().isalnum())


def _torn(rows: Sequence[str], start: int, end: int, markup: str) -> int:
    """Where a fence without an end stops; 0 if it has one."""
    last = _bare(rows[end - 1]).strip()
    closed = end - start > 1 and last.startswith(markup) and not last.strip(markup[0])
    if closed:
        return 0
    for number in range(start + 2, end - 1):
        free = not rows[number - 1].strip() and not rows[number + 1].strip()
        if free and _FREE_HEADING.fullmatch(_bare(rows[number])):
            return number
    return end


def _bare(row: str) -> str:
    return row.rstrip("\r\n")


def _parsed(text: str) -> list[Any]:
    return list(_parser().parse(text.replace("\ufeff", " ")))


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"], ignoreInvalid=True)
