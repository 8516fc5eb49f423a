"""JSON Schema for answers: is a value of this form, and if not, why. Offline, and without patterns that could hang.

`$ref` stays inside the schema; `pattern` and `patternProperties` are refused, since their search has no time limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_UNBOUNDED = ("pattern", "patternProperties")


def check(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself; ValueError, with the reason, for one that `fault` could not apply."""
    for keyword, value in _keywords(schema):
        if keyword in _UNBOUNDED and not isinstance(value, bool):
            raise ValueError(f"the schema uses {keyword!r}; a regex grader can do that")
        if keyword == "$ref" and not str(value).startswith("#"):
            raise ValueError(f"the schema refers to {value!r}, outside itself")
    return well_formed(schema)


def well_formed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself; ValueError, with the reason, for what is none."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"not a JSON Schema: {error.message}") from None
    return schema


def fault(schema: dict[str, Any], value: Any) -> str | None:
    """What is wrong with the value, on one line; None when it has the form."""
    from jsonschema import Draft202012Validator
    from referencing.exceptions import Unresolvable

    try:
        error = next(Draft202012Validator(schema).iter_errors(value), None)
    except Unresolvable as unresolvable:
        return f"the schema refers to {unresolvable.ref!r}, which it does not hold"
    except RecursionError:
        return "it is nested too deeply, or the schema refers to itself without an end"
    except ArithmeticError:  # 1e400 is JSON, and no number that can be divided
        return "a number in it is too large"
    if error is None:
        return None
    path = error.json_path.removeprefix("$").removeprefix(".")
    told = " ".join(f"{path}: {error.message}".removeprefix(": ").split())
    return told.encode(errors="replace").decode()  # a key may be half a surrogate pair, which no file can hold


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every keyword of the schema and of those inside it; names of properties are no keywords."""
    if isinstance(schema, list):
        for item in schema:
            yield from _keywords(item)
    elif isinstance(schema, dict):
        for keyword, value in schema.items():
            yield keyword, value
            named = keyword in ("properties", "$defs", "definitions", "dependentSchemas") and isinstance(value, dict)
            yield from _keywords(list(value.values()) if named else value)
