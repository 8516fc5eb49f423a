"""Which heading, and which paragraph, the tokens of a text belong to: a token is where its first byte is.

Every part of a text owns a stretch of it and the stretches cover it, so the tokens of the parts add up to the whole exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from nightschool.sek.blocks import Block, blocks

TOP = "(before the first heading)"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a text: what it is called, the line it begins at, the heading's level (1 to 6), and its tokens.

    The tokens of a heading are those up to the next heading of any level.
    """

    title: str
    line: int
    level: int
    tokens: int


def headings(text: str, starts: Sequence[int]) -> list[Part]:
    """The tokens of each heading, in the order of the text; `starts` are the characters that tokens begin at."""
    parts: list[tuple[Block | None, int]] = []
    for block in blocks(text):
        if block.kind == "heading" or not parts:
            parts.append((block if block.kind == "heading" else None, 0))
        parts[-1] = parts[-1][0], parts[-1][1] + len(block.text)
    tokens = shares((length for _, length in parts), starts)
    return [
        Part(head.title or "(untitled)" if head else TOP, head.start if head else 1, head.level if head else 0, count)
        for (head, _), count in zip(parts, tokens, strict=True)
    ]


def paragraphs(text: str, starts: Sequence[int]) -> list[Part]:
    """The tokens of each paragraph, list, table or fence, in the order of the text; blank lines belong to what precedes."""
    found = blocks(text)
    tokens = shares((len(block.text) for block in found), starts)
    parts: list[Part] = []
    for block, count in zip(found, tokens, strict=True):
        if block.kind == "blank" and parts:
            last = parts.pop()
            parts.append(Part(last.title, last.line, last.level, last.tokens + count))
        else:
            parts.append(Part(" ".join(block.text.split())[:60], block.start, block.level, count))
    return parts


def shares(lengths: Iterable[int], starts: Sequence[int]) -> list[int]:
    """How many of the ascending `starts` lie in each of the stretches that follow one another."""
    from bisect import bisect_left

    edges = [bisect_left(starts, end) for end in accumulate(lengths)]
    return [edge - before for before, edge in zip([0, *edges], edges, strict=False)]
