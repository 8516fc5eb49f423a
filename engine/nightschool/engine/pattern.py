"""Regular expressions, in Python's syntax, as nodes: what they accept, and how long it can get.

The expression must match the whole text, so anchors at its ends say nothing. `\\d`, `\\w`, `\\s` mean ASCII (their
negations leave out what Unicode counts too), so that whatever is accepted also matches in Python. Look-around,
back-references and flags other than `s` and `x` are refused: no grammar can hold them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.engine import nodes
from nightschool.engine.nodes import Alt, Chars, Lit, Node, Repeat, Seq
from nightschool.engine.utf8 import Ranges, Span, complement, without

_ASCII = {
    r"\d": ((0x30, 0x39),),
    r"\w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    r"\s": ((0x09, 0x0D), (0x20, 0x20)),
}
_CATEGORIES = {sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_SPACE: r"\s"}
_NEGATED = {sre.CATEGORY_NOT_DIGIT: r"\d", sre.CATEGORY_NOT_WORD: r"\w", sre.CATEGORY_NOT_SPACE: r"\s"}
_NEWLINE = (0x0A, 0x0A)


def parse(expression: str) -> Node:
    """The language of an expression; its `longest` is infinite if a repetition in it is open."""
    try:
        tree = _parser.parse(expression)
    except re.error as error:
        raise Problem(f"not a regular expression: {expression!r}: {error}", "mend the expression") from None
    refused = tree.state.flags & (re.IGNORECASE | re.MULTILINE | re.ASCII | re.LOCALE)
    if refused:
        raise _refusal(expression, f"the flag {re.RegexFlag(refused)!r}")
    items = list(tree)
    while items and items[0] in _STARTS:
        items.pop(0)
    while items and items[-1] in _ENDS:
        items.pop()
    return _Reader(expression, bool(tree.state.flags & re.DOTALL)).sequence(items)


def bounded(node: Node, most: int | None, where: str) -> Node:
    """The members of at most `most` characters. A cap that cuts into the language needs plain ASCII."""
    if most is None and node.longest == math.inf:
        raise Problem(f"{where} has an open repetition, so no longest match", "bound it: [a-z]{1,40}, not [a-z]+")
    if most is None or _most_chars(node) <= most:
        return node
    if not _plain_ascii(node):
        raise Problem(f"{where} can be longer than {most} characters", f"bound its repetitions: {{0,{most}}}, not *")
    return nodes.capped(node, most)


def in_string(node: Node, control: Iterable[Span]) -> Node:
    """The same texts as they stand inside a JSON string, without those that hold `control` characters."""
    match node:
        case Chars():
            kept = without(node.ranges, control)
            marks = [mark for mark in _ESCAPED if any(low <= mark <= high for low, high in kept)]
            plain = nodes.chars(without(kept, ((mark, mark) for mark in _ESCAPED)))
            return nodes.alt([plain, *(nodes.lit(bytes((0x5C, mark))) for mark in marks)])
        case Lit():
            return nodes.seq(*(in_string(Chars(((ord(char), ord(char)),)), control) for char in node.data.decode()))
        case Seq():
            return nodes.seq(in_string(node.head, control), in_string(node.tail, control))
        case Alt():
            return nodes.alt(in_string(option, control) for option in node.options)
        case Repeat():
            return nodes.repeat(in_string(node.part, control), node.low, node.high)
        case _:
            return node


class _Reader:
    """Turns Python's parse of one expression into nodes."""

    def __init__(self, expression: str, dot_all: bool) -> None:
        self.expression = expression
        self.any = nodes.chars(complement([] if dot_all else [_NEWLINE]))

    def sequence(self, items: Iterable[tuple[Any, Any]]) -> Node:
        return nodes.seq(*(self._item(op, value) for op, value in items))

    def _item(self, op: Any, value: Any) -> Node:
        if op is sre.LITERAL:
            return nodes.chars([(value, value)])
        if op is sre.NOT_LITERAL:
            return nodes.chars(complement([(value, value)]))
        if op is sre.ANY:
            return self.any
        if op is sre.IN:
            return self._class(value)
        if op is sre.BRANCH:
            return nodes.alt(self.sequence(option) for option in value[1])
        if op is sre.SUBPATTERN and not value[1] and not value[2]:
            return self.sequence(value[3])
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, part = value
            return nodes.repeat(self.sequence(part), low, None if high is sre.MAXREPEAT else high)
        raise _refusal(self.expression, str(op).lower())

    def _class(self, items: list[tuple[Any, Any]]) -> Node:
        negated = items[0][0] is sre.NEGATE
        spans = [span for op, value in items[negated:] for span in self._spans(op, value, wide=negated)]
        return nodes.chars(complement(spans) if negated else spans)

    def _spans(self, op: Any, value: Any, *, wide: bool) -> Ranges:
        """The code points of one part of a class; where Python's category is not ASCII's, the wider if `wide`."""
        if op is sre.LITERAL:
            return ((value, value),)
        if op is sre.RANGE:
            return (value,)
        if op is sre.CATEGORY and value in _CATEGORIES:
            return _unicode(_CATEGORIES[value]) if wide else _ASCII[_CATEGORIES[value]]
        if op is sre.CATEGORY and value in _NEGATED:
            return complement(_ASCII[_NEGATED[value]] if wide else _unicode(_NEGATED[value]))
        raise _refusal(self.expression, str(value).lower())


@cache
def _unicode(category: str) -> Ranges:
    """All code points of a category, as Python's re counts them."""
    everything = "".join(map(chr, range(0x110000)))
    return tuple((found.start(), found.end() - 1) for found in re.finditer(category + "+", everything))


def _most_chars(node: Node) -> float:
    """Characters of the longest member."""
    match node:
        case Chars():
            return 1
        case Seq():
            return _most_chars(node.head) + _most_chars(node.tail)
        case Alt():
            return max(map(_most_chars, node.options))
        case Repeat():
            return _most_chars(node.part) * (math.inf if node.high is None else node.high)
        case Lit():
            return len(node.data.decode()) - node.data.count(b"\\")
        case _:
            return node.longest


def _plain_ascii(node: Node) -> bool:
    """No character of it takes more than a byte, and none is an escape."""
    match node:
        case Chars():
            return node.longest == 1
        case Seq():
            return _plain_ascii(node.head) and _plain_ascii(node.tail)
        case Alt():
            return all(map(_plain_ascii, node.options))
        case Repeat():
            return _plain_ascii(node.part)
        case Lit():
            return node.data.isascii() and b"\\" not in node.data
        case _:
            return False


def _refusal(expression: str, what: str) -> Problem:
    return Problem(f"{expression!r} uses {what}, which no grammar can hold", "write the expression without it")


_STARTS = [(sre.AT, sre.AT_BEGINNING), (sre.AT, sre.AT_BEGINNING_STRING)]
_ENDS = [(sre.AT, sre.AT_END), (sre.AT, sre.AT_END_STRING)]
_ESCAPED = (0x22, 0x5C)
