"""JSON schemas and Python types as terms.

What a schema does not bound, or says in a way that no grammar can keep, is a Problem that names the path in the schema
and what to do. Keys come in the order of `properties`, and only those: a reply is always valid under the schema, though
not everything that is valid under the schema can be a reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from nightschool.disk.errors import Problem, nearest
from nightschool.engine import numerals, terms
from nightschool.engine.terms import Term

Source = Mapping[str, Any]

_NOTES = {
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "deprecated",
}
_KEYWORDS: dict[str, set[str]] = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"minimum", "maximum"},
    "boolean": set(),
    "null": set(),
}
_FORMATS = {
    "date": r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
    "time": r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z",
    "date-time": r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}
_MOST = 10**numerals.MOST_DIGITS - 1


def to_term(source: Source) -> Term:
    """The term of a whole schema."""
    return _Compiler(source).term(source, "#", ())


def type_to_term(output_type: Any) -> Term:
    """The term of a Python type, as Outlines understands it."""
    from outlines.types import dsl

    if output_type is int:
        return terms.integer(-_MOST, _MOST)
    if output_type is float:
        return terms.number(-_MOST, _MOST)
    found = dsl.python_types_to_terms(output_type)
    if isinstance(found, dsl.JsonSchema):
        return to_term(json.loads(found.schema))
    name = getattr(output_type, "__name__", repr(output_type))
    try:
        return terms.regex(dsl.to_regex(found))
    except (Problem, TypeError):
        raise Problem(f"the type {name} does not bound its replies", "use a Pydantic model with max_length") from None


class _Compiler:
    """Compiles the parts of one schema; `root` is where its references lead."""

    def __init__(self, root: Source) -> None:
        self.root = root
        self.kinds: dict[str, Callable[[Source, str, tuple[str, ...]], Term]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda *_: terms.boolean(),
            "null": lambda *_: terms.null(),
        }

    def term(self, source: Any, path: str, inside: tuple[str, ...]) -> Term:
        """The term of the schema at `path`; `inside` are the references that led there."""
        if not isinstance(source, Mapping):
            raise Problem(f"{path}: a schema must be an object, not {source!r}", "write a JSON schema here")
        _shaped(source, path)
        for keyword, compiled in self._combined(source, path, inside):
            _only(source, {keyword, "type", *_NOTES}, path)
            return compiled()
        kind = source.get("type")
        if isinstance(kind, list):
            return terms.alt(self.term({**_for(each, source), "type": each}, path, inside) for each in kind)
        if kind not in self.kinds:
            advice = nearest(str(kind), self.kinds) if kind else "give it a type, an enum or a const"
            raise Problem(f"{path}: {'no type' if kind is None else f'the type {kind!r} is not known'}", advice)
        _only(source, {"type", *_KEYWORDS[kind], *_NOTES}, path)
        return self.kinds[kind](source, path, inside)

    def _combined(self, source: Source, path: str, inside: tuple[str, ...]) -> list[tuple[str, Callable[[], Term]]]:
        """The keywords that stand for a whole schema by themselves, as far as this one has them."""
        found: dict[str, Callable[[], Term]] = {
            "const": lambda: terms.const(source["const"]),
            "enum": lambda: terms.choice(source["enum"]),
            "$ref": lambda: self._reference(source["$ref"], path, inside),
            "anyOf": lambda: self._any("anyOf", source, path, inside),
            "oneOf": lambda: self._any("oneOf", source, path, inside),
            "allOf": lambda: self._all(source, path, inside),
        }
        return [(keyword, compiled) for keyword, compiled in found.items() if keyword in source]

    def _reference(self, target: Any, path: str, inside: tuple[str, ...]) -> Term:
        if not isinstance(target, str) or not target.startswith("#"):
            raise Problem(f"{path}: the reference {target!r} leads out of the schema", "copy its target into $defs")
        if target in inside:
            raise Problem(
                f"{path}: {target} refers to itself, so no reply is the longest", "unfold it to a fixed depth"
            )
        found: Any = self.root
        for name in target.lstrip("#/").split("/"):
            key = name.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise Problem(f"{path}: nothing is at {target}", "add it to $defs")
            found = found[key]
        return self.term(found, target, (*inside, target))

    def _any(self, keyword: str, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        options = source[keyword]
        return terms.alt(self.term(option, f"{path}/{keyword}/{i}", inside) for i, option in enumerate(options))

    def _all(self, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        if len(source["allOf"]) != 1:
            raise Problem(f"{path}: allOf with several schemas cannot be kept", "merge them into one schema")
        return self.term(source["allOf"][0], f"{path}/allOf/0", inside)

    def _object(self, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        properties = source.get("properties")
        if not properties or source.get("additionalProperties", False) not in (True, False):
            raise Problem(f"{path}: an object with free keys has no bound", "list its keys in `properties`")
        required = source.get("required", [])
        unknown = [key for key in required if key not in properties]
        if unknown:
            raise Problem(f"{path}: `required` names {unknown[0]!r}", nearest(unknown[0], properties))
        fields = {key: self.term(part, f"{path}/properties/{key}", inside) for key, part in properties.items()}
        return terms.obj(fields, optional=[key for key in properties if key not in required])

    def _array(self, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        if "prefixItems" in source:
            if source.get("items", False) is not False and source.get("maxItems") != len(source["prefixItems"]):
                raise Problem(f"{path}: prefixItems with more items after them", "say `items: false`")
            return terms.fixed(
                [self.term(part, f"{path}/prefixItems/{i}", inside) for i, part in enumerate(source["prefixItems"])]
            )
        if "items" not in source or "maxItems" not in source:
            raise Problem(f"{path}: an array without a bound", "add `items` and `maxItems`")
        item = self.term(source["items"], f"{path}/items", inside)
        return terms.array(item, source.get("minItems", 0), source["maxItems"])

    def _string(self, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        most = source.get("maxLength")
        if "format" in source:
            _only(source, {"type", "format", *_NOTES}, path)
            if source["format"] not in _FORMATS:
                raise Problem(
                    f"{path}: the format {source['format']!r} is not known",
                    nearest(source["format"], _FORMATS),
                )
            return terms.matching(_FORMATS[source["format"]])
        if "pattern" in source:
            return self._pattern(source, path, most)
        if most is None:
            raise Problem(f"{path}: a string without a bound", "add maxLength")
        return terms.text(most, source.get("minLength", 0))

    def _pattern(self, source: Source, path: str, most: int | None) -> Term:
        expression = source["pattern"]
        if source.get("minLength") or not expression.startswith("^") or not expression.endswith("$"):
            raise Problem(f"{path}: a pattern must say the whole string", "write ^...$ and drop minLength")
        try:
            return terms.matching(expression, most)
        except Problem as problem:
            raise Problem(f"{path}: {problem.what}", problem.advice) from None

    def _integer(self, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        low = max(_whole(source, "minimum", -_MOST, path), _whole(source, "exclusiveMinimum", -_MOST - 1, path) + 1)
        high = min(_whole(source, "maximum", _MOST, path), _whole(source, "exclusiveMaximum", _MOST + 1, path) - 1)
        return terms.integer(low, high)

    def _number(self, source: Source, path: str, inside: tuple[str, ...]) -> Term:
        return terms.number(_whole(source, "minimum", -_MOST, path), _whole(source, "maximum", _MOST, path))


def _shaped(source: Source, path: str) -> None:
    """Refuse values of keywords that mean nothing, before anything is made of them."""
    for keyword, value in source.items():
        fits, wanted = _SHAPES.get(keyword, (_anything, ""))
        if not fits(value):
            raise Problem(f"{path}: {keyword} must be {wanted}, not {value!r}", "see json-schema.org")


def _anything(value: Any) -> bool:
    return True


def _size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _json(value: Any) -> bool:
    try:
        terms.encode(value)
    except (TypeError, ValueError):
        return False
    return True


_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (lambda value: _text(value) or _texts(value), "a type or a list of types"),
    "const": (_json, "a JSON value"),
    "enum": (lambda value: _list(value) and _json(value), "a list of JSON values"),
    "anyOf": (_list, "a list of schemas"),
    "oneOf": (_list, "a list of schemas"),
    "allOf": (_list, "a list of schemas"),
    "prefixItems": (_list, "a list of schemas"),
    "properties": (lambda value: isinstance(value, Mapping) and all(map(_json, value)), "an object of schemas"),
    "required": (_texts, "a list of keys"),
    "pattern": (_text, "a text"),
    "format": (_text, "a text"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (_size, "a whole number, 0 or more")),
}
"""Keyword -> whether a value can be one of it, and what it must be."""


def _whole(source: Source, keyword: str, default: int, path: str) -> int:
    value = source.get(keyword, default)
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        raise Problem(f"{path}: {keyword} must be a whole number, not {value!r}", "round it")
    return int(value)


def _only(source: Source, known: set[str], path: str) -> None:
    """Refuse keywords that would be dropped silently."""
    for keyword in source:
        if keyword not in known:
            raise Problem(f"{path}: {keyword!r} cannot be kept here", nearest(keyword, known - _NOTES))


def _for(kind: Any, source: Source) -> Source:
    """The part of a schema with several types that speaks of one of them."""
    others = {word for name, words in _KEYWORDS.items() if name != kind for word in words}
    return {key: value for key, value in source.items() if key not in others - _KEYWORDS.get(kind, set())}
