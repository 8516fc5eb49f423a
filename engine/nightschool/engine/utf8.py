"""Code points and their UTF-8 bytes: the arithmetic behind character classes.

Ranges are inclusive pairs of code points. Surrogates are in none: UTF-8 has no bytes for them.
"""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]
Ranges = tuple[Span, ...]
"""Sorted, apart from each other, without surrogates."""

LAST = 0x10FFFF

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
BYTE_LETTERS = "".join(chr(byte if byte in _VISIBLE else 256 + _HIDDEN.index(byte)) for byte in range(256))
"""How byte-level tokenizers write each of the 256 bytes: visible ones as they are, others as code points from 256."""


def ranges(spans: Iterable[Span]) -> Ranges:
    """The same code points in order, neighbours joined, surrogates left out."""
    merged: list[Span] = []
    for low, high in sorted(part for span in spans for part in _without_surrogates(*span)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(spans: Iterable[Span]) -> Ranges:
    """All other code points."""
    left, start = [], 0
    for low, high in sorted(spans):
        if start < low:
            left.append((start, low - 1))
        start = max(start, high + 1)
    return ranges([*left, (start, LAST)] if start <= LAST else left)


def without(spans: Iterable[Span], removed: Iterable[Span]) -> Ranges:
    """The code points of `spans` that are not in `removed`."""
    return complement([*complement(spans), *removed])


def width(code: int) -> int:
    """Bytes of a code point."""
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def following(low: int, read: int, byte: int) -> Ranges:
    """The code points that share their first `read` bytes with `low` and have `byte` next."""
    if read == 0:
        return _LEADS[byte]
    if not 0x80 <= byte <= 0xBF:
        return ()
    unit = 1 << 6 * (width(low) - read - 1)
    base = low - low % (unit << 6) + (byte & 0x3F) * unit
    return ((base, base + unit - 1),)


def _without_surrogates(low: int, high: int) -> list[Span]:
    parts = [(low, min(high, 0xD7FF)), (max(low, 0xE000), high)]
    return [(first, last) for first, last in parts if first <= last]


def _lead(byte: int) -> Ranges:
    """The code points whose first byte is `byte`."""
    if byte < 0x80:
        return ((byte, byte),)
    for mask, length, least in ((0xC0, 2, 0x80), (0xE0, 3, 0x800), (0xF0, 4, 0x10000)):
        if mask <= byte < (mask >> 1 | 0x80):
            size = 1 << 6 * (length - 1)
            first = (byte - mask) * size
            low, high = max(first, least), min(first + size - 1, LAST)
            return ((low, high),) if low <= high else ()
    return ()


_LEADS = tuple(_lead(byte) for byte in range(256))
