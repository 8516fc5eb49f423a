"""Numbers between bounds, as nodes: JSON's spelling, without leading zeros, exponents or a negative zero."""

from __future__ import annotations

from nightschool.engine import nodes
from nightschool.engine.nodes import EMPTY, NOTHING, Node

MOST_DIGITS = 15
"""Digits of an integer without bounds; every such number is exact as a double."""


def integer(low: int, high: int) -> Node:
    """Whole numbers from `low` to `high`."""
    minus = nodes.lit(b"-")
    negative = nodes.seq(minus, _natural(max(1, -high), -low)) if low < 0 else NOTHING
    return nodes.alt([negative, _natural(max(low, 0), high)])


def decimal(low: int, high: int, decimals: int) -> Node:
    """Numbers from `low` to `high` with at most so many decimals."""
    minus = nodes.lit(b"-")
    negative = nodes.seq(minus, _positive(max(0, -high), -low, decimals)) if low < 0 else NOTHING
    return nodes.alt([negative, _positive(max(low, 0), high, decimals)])


def _positive(low: int, high: int, decimals: int) -> Node:
    fraction = nodes.seq(nodes.lit(b"."), nodes.repeat(_digit(0, 9), 1, decimals)) if decimals else EMPTY
    below = nodes.seq(_natural(low, high - 1), nodes.alt([EMPTY, fraction]))
    return nodes.alt([below, _natural(high, high)])


def _natural(low: int, high: int) -> Node:
    """Decimal spellings of low..high, both at least 0."""
    if low > high or high < 0:
        return NOTHING
    by_length = []
    for length in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        by_length.append(_same_length(str(least), str(min(high, 10**length - 1))))
    return nodes.alt(by_length)


def _same_length(low: str, high: str) -> Node:
    """Digit strings between two of the same length."""
    if not low:
        return EMPTY
    rest = len(low) - 1
    if low == "0" * len(low) and high == "9" * len(high):
        return nodes.repeat(_digit(0, 9), len(low), len(low))
    first, last = int(low[0]), int(high[0])
    if first == last:
        return nodes.seq(_digit(first, last), _same_length(low[1:], high[1:]))
    parts = []
    if low[1:] != "0" * rest:
        parts.append(nodes.seq(_digit(first, first), _same_length(low[1:], "9" * rest)))
        first += 1
    if high[1:] != "9" * rest:
        parts.append(nodes.seq(_digit(last, last), _same_length("0" * rest, high[1:])))
        last -= 1
    return nodes.alt([*parts, nodes.seq(_digit(first, last), _same_length("0" * rest, "9" * rest))])


def _digit(first: int, last: int) -> Node:
    if first > last:
        return NOTHING
    if first == last:
        return nodes.lit(str(first).encode())
    return nodes.chars([(0x30 + first, 0x30 + last)])
