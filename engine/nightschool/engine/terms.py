"""The term algebra: what a reply may be, as values that are put together.

A term knows its language (`node`: exact sizes, Lark, shortest closing) and its nearest portable JSON schema. Replies
are compact JSON: no free white space anywhere. Model text is one line without control characters, and its only
escapes are `\\"` and `\\\\`; longer text is an array of lines. A term that nothing can satisfy (an enum without ids) is
`impossible`: `alt` and optional keys leave it out, everything else that needs it becomes impossible too.

    edit = obj({"op": const("append"), "page": choice(pages), "content": lines(1, 8, 200)})
    reply = obj({"log": text(200), "edits": array(edit, 0, 5), "evidence": distinct(traces, 1, 5)})
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from json.encoder import encode_basestring
from typing import Any

from nightschool.engine import nodes, numerals, pattern
from nightschool.engine.nodes import NOTHING, Node
from nightschool.engine.picks import picks
from nightschool.engine.utf8 import complement

Schema = dict[str, Any]

CONTROL = ((0x00, 0x1F), (0x7F, 0x9F), (0x2028, 0x2029))
"""Code points that model text never holds: C0, DEL, C1 (with U+0085), and the Unicode line ends."""

PLAIN = nodes.chars(complement([*CONTROL, (0x22, 0x22), (0x5C, 0x5C)]))
_ESCAPE = nodes.seq(nodes.lit(b"\\"), nodes.chars([(0x22, 0x22), (0x5C, 0x5C)]))
TEXT_CHAR = nodes.alt([PLAIN, _ESCAPE])
_QUOTE = nodes.lit(b'"')
_BEGIN, _END, _OPEN, _CLOSE, _COMMA = (nodes.token(mark) for mark in (b"{", b"}", b"[", b"]", b","))
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A language of replies, and the nearest JSON schema (`None` if no schema comes near)."""

    node: Node
    schema: Schema | None

    @property
    def impossible(self) -> bool:
        """Nothing satisfies it."""
        return self.node is NOTHING


def lit(raw: str) -> Term:
    """Exactly this text, not quoted."""
    try:
        schema: Schema | None = {"const": json.loads(raw)}
    except ValueError:
        schema = None
    return Term(nodes.lit(raw.encode()), schema)


def const(value: object) -> Term:
    """Exactly this JSON value."""
    if isinstance(value, Mapping):
        return Term(obj({key: const(part) for key, part in value.items()}).node, {"const": value})
    if isinstance(value, list | tuple):
        return Term(fixed([const(part) for part in value]).node, {"const": value})
    return Term(nodes.token(encode(value)), {"const": value})


def choice(options: Iterable[object]) -> Term:
    """One of these JSON values (strings, as a rule)."""
    values = list(options)
    deep = [value for value in values if not isinstance(value, str) and isinstance(value, Mapping | list | tuple)]
    flat = nodes.leaf(nodes.words(encode(value) for value in values if not deep or value not in deep))
    return Term(nodes.alt([flat, *(const(value).node for value in deep)]), {"enum": values})


def plain(options: Iterable[str]) -> Term:
    """One of these texts, not quoted."""
    return Term(nodes.leaf(nodes.words(option.encode() for option in options)), None)


def text(max_chars: int, min_chars: int = 0) -> Term:
    """A JSON string of one line."""
    schema: Schema = {"type": "string", "maxLength": max_chars}
    return Term(_line(min_chars, max_chars), schema | ({"minLength": min_chars} if min_chars else {}))


def matching(expression: str, max_chars: int | None = None) -> Term:
    """A JSON string whose whole value matches a regular expression; an open end (`*`, `+`) needs `max_chars`."""
    body = pattern.in_string(pattern.parse(expression), CONTROL)
    schema: Schema = {"type": "string", "pattern": f"^(?:{expression})$"}
    limits = {} if max_chars is None else {"maxLength": max_chars}
    return Term(_quoted(pattern.bounded(body, max_chars, f"the pattern {expression!r}")), schema | limits)


def regex(expression: str, max_chars: int | None = None) -> Term:
    """Whatever matches a regular expression, not quoted. Inside other terms it must be a JSON value by itself."""
    return Term(nodes.leaf(pattern.bounded(pattern.parse(expression), max_chars, f"the pattern {expression!r}")), None)


def integer(low: int, high: int) -> Term:
    """A whole number from `low` to `high`, both included."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Term(nodes.leaf(numerals.integer(low, high)), schema)


def number(low: int, high: int, decimals: int = 6) -> Term:
    """A decimal from `low` to `high`, both included, with at most so many decimals."""
    schema = {"type": "number", "minimum": low, "maximum": high}
    return Term(nodes.leaf(numerals.decimal(low, high, decimals)), schema)


def boolean() -> Term:
    """`true` or `false`."""
    return Term(choice([True, False]).node, {"type": "boolean"})


def null() -> Term:
    """`null`."""
    return Term(nodes.token(b"null"), {"type": "null"})


def obj(fields: Mapping[str, Term], optional: Collection[str] = ()) -> Term:
    """A JSON object with these keys in this order; the optional ones may be left out."""
    usable = {key: term for key, term in fields.items() if key not in optional or not term.impossible}
    members = list(usable.items())

    @cache
    def rest(index: int, comma: bool) -> Node:
        if index == len(members):
            return _END
        key, term = members[index]
        field = nodes.seq(nodes.token(encode(key) + b":"), term.node, rest(index + 1, True))
        present = nodes.seq(_COMMA, field) if comma else field
        return nodes.alt([present, rest(index + 1, comma)]) if key in optional else present

    schemas = {key: term.schema for key, term in usable.items()}
    schema = {
        "type": "object",
        "properties": schemas,
        "required": [key for key in usable if key not in optional],
        "additionalProperties": False,
    }
    return Term(nodes.seq(_BEGIN, rest(0, False)), _if_all(schemas.values(), schema))


def array(item: Term, minimum: int, maximum: int) -> Term:
    """A JSON array of `minimum` to `maximum` items."""
    schema = {"type": "array", "items": item.schema, "minItems": minimum, "maxItems": maximum}
    return Term(_items(item.node, minimum, maximum), _if_all([item.schema], schema))


def fixed(items: Sequence[Term]) -> Term:
    """A JSON array of exactly these items."""
    parts = [part for item in items for part in (_COMMA, item.node)][1:]
    schemas = [item.schema for item in items]
    schema = {"type": "array", "prefixItems": schemas, "minItems": len(items), "maxItems": len(items)}
    return Term(nodes.seq(_OPEN, *parts, _CLOSE), _if_all(schemas, schema))


def lines(minimum: int, maximum: int, max_chars: int) -> Term:
    """Longer text: a JSON array of lines, none of them empty."""
    return array(text(max_chars, 1), minimum, maximum)


def distinct(ids: Iterable[str], minimum: int, maximum: int) -> Term:
    """A JSON array of `minimum` to `maximum` of these ids, none of them twice. At most 63 ids."""
    values = list(dict.fromkeys(ids))
    node = picks([nodes.token(encode(value)) for value in values], minimum, maximum)
    return Term(node, {"type": "array", "items": {"enum": values}, "minItems": minimum, "maxItems": maximum})


def distinct_objects(options: Sequence[Term], minimum: int, maximum: int) -> Term:
    """A JSON array of `minimum` to `maximum` items, where each option gives at most one. At most 63 options."""
    usable = [option for option in options if not option.impossible]
    schemas = [option.schema for option in usable]
    schema = {"type": "array", "items": {"anyOf": schemas}, "minItems": minimum, "maxItems": maximum}
    return Term(picks([option.node for option in usable], minimum, maximum), _if_all(schemas, schema))


def alt(options: Iterable[Term]) -> Term:
    """Any one of the options that are possible."""
    usable = [option for option in options if not option.impossible]
    schemas = [option.schema for option in usable]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return Term(nodes.alt(option.node for option in usable), _if_all(schemas, schema))


def encode(value: object) -> bytes:
    """A value as compact JSON; what is not a JSON value, or not Unicode text, raises ValueError."""
    return (encode_basestring(value) if isinstance(value, str) else _ENCODER.encode(value)).encode()


@cache
def _line(min_chars: int, max_chars: int) -> Node:
    return _quoted(nodes.repeat(TEXT_CHAR, min_chars, max_chars) if min_chars <= max_chars else NOTHING)


def _quoted(body: Node) -> Node:
    return nodes.leaf(nodes.seq(_QUOTE, body, _QUOTE))


def _items(item: Node, minimum: int, maximum: int) -> Node:
    if maximum < minimum:
        return NOTHING
    more = nodes.repeat(nodes.seq(_COMMA, item), max(minimum - 1, 0), maximum - 1) if maximum else NOTHING
    some = nodes.seq(_OPEN, item, more, _CLOSE)
    return nodes.alt([nodes.seq(_OPEN, _CLOSE), some]) if minimum == 0 else some


def _if_all(parts: Iterable[Schema | None], schema: Schema | None) -> Schema | None:
    """The schema, unless a part of it has none."""
    return None if any(part is None for part in parts) else schema
