"""A text -> units that can be cited, and units -> chunks that fit a model; not a character is lost on the way.

A unit is a paragraph, an item of a list, or a piece of a longer block, with the heading above it and the blank lines after
it: `"".join(unit.text for unit in units(text)) == text`. A chunk is a run of units; where it can it ends before a heading.
What is asked about a chunk is left to others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nightschool.sek.blocks import blocks, items, lines

LONGEST = 400
"""Characters of a unit, blank lines aside; a longer paragraph, or line, is cut at a line or a blank."""
MOST = 63
"""Units of a chunk: as many as a grammar can tell apart."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a text, from the character `start` on."""

    text: str
    start: int
    line: int
    """The line that it begins in, counted from 1."""
    heading: bool
    """Whether it begins with a heading."""

    @property
    def end(self) -> int:
        """The character after it."""
        return self.start + len(self.text)

    @property
    def quote(self) -> str:
        """Its words, verbatim, without the blank lines around them."""
        return self.text[self._lead :].rstrip()

    @property
    def first(self) -> int:
        """The line where its words begin."""
        return self.line + self.text.count("\n", 0, self._lead)

    @property
    def last(self) -> int:
        """The line where its words end."""
        return self.first + self.quote.count("\n")

    @property
    def _lead(self) -> int:
        """Characters of the blank lines before its words."""
        return self.text.rfind("\n", 0, len(self.text) - len(self.text.lstrip())) + 1


def fed(text: str) -> str:
    """A text whose lines end in line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def units(text: str) -> list[Unit]:
    """The units of a text whose lines end in line feeds."""
    found: list[Unit] = []
    start, line = 0, 1
    for piece, heading in _joined(text):
        found.append(Unit(piece, start, line, heading))
        start, line = start + len(piece), line + piece.count("\n")
    return found


def chunks(
    found: Sequence[Unit], count: Callable[[Sequence[Unit]], int], wanted: int, most: int
) -> Iterator[tuple[Unit, ...]]:
    """Runs of units that `count` at most `wanted` each; a single unit may count up to `most`, past that is a ValueError."""
    at = 0
    while at < len(found):
        size = bisect_right(range(1, min(len(found) - at, MOST) + 1), wanted, key=lambda n: count(found[at : at + n]))
        if size == 0 and count(found[at : at + 1]) > most:
            raise ValueError(f"line {found[at].first} alone is too long")
        size = _before_heading(found[at:], max(size, 1))
        yield tuple(found[at : at + size])
        at += size


def _before_heading(rest: Sequence[Unit], size: int) -> int:
    """A chunk's size, less if a heading stands in its second half and more of the text follows."""
    if size >= len(rest) or rest[size].heading:
        return size
    return next((n for n in range(size - 1, size // 2, -1) if rest[n].heading), size)


def _joined(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a text; blank lines go with what is before them, a heading with what is below it."""
    held, titled, waiting = "", False, False
    for piece, title in _pieces(text):
        blank = not piece.strip()
        if held.strip() and not blank and not (waiting and len(held) + len(piece) <= LONGEST):
            yield held, titled
            held = ""
        titled = title if not held.strip() else titled
        held += piece
        waiting = title or (blank and waiting)
    if held:
        yield held, titled


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Blocks, and the items of lists, each cut where it is too long; and whether it is a heading."""
    for block in blocks(text):
        for part in items(block) if block.kind == "list" else [block]:
            yield from ((piece, block.kind == "heading") for piece in _cut(part.text))


def _cut(text: str) -> Iterator[str]:
    held = ""
    for row in lines(text):
        for bit in _bits(row):
            if held and len(held) + len(bit) > LONGEST:
                yield held
                held = ""
            held += bit
    if held:
        yield held


def _bits(row: str) -> Iterator[str]:
    while len(row) > LONGEST:
        at = row.rfind(" ", 1, LONGEST) + 1 or LONGEST
        yield row[:at]
        row = row[at:]
    yield row
