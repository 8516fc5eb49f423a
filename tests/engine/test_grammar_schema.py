"""JSON schemas and Python types as grammars."""

import re
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from nightschool.disk.errors import Problem
from nightschool.engine.grammar import Grammar, accepts


def bounded(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": more}, "required": ["a"]}


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        ({"type": "string", "maxLength": 2, "title": "T"}, ['"ab"'], ['"abc"']),
        ({"type": "string", "pattern": "^[a-z]{1,3}$"}, ['"abc"'], ['"A"', '""']),
        ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 2}, ['"ab"'], ['"abc"']),
        ({"type": "string", "format": "date"}, ['"2024-02-28"'], ['"2024-13-01"']),
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 10}, ["1", "9"], ["0", "10"]),
        ({"type": "integer"}, ["-999999999999999", "0"], ["1000000000000000", "-0"]),
        ({"type": "number", "minimum": 0, "maximum": 1}, ["0.5", "1"], ["1.5", "-0.1"]),
        ({"type": ["string", "null"], "maxLength": 2}, ['"a"', "null"], ["1"]),
        ({"enum": ["a", 1, None, {"b": []}]}, ['"a"', "1", "null", '{"b":[]}'], ["2"]),
        ({"const": 1.5}, ["1.5"], ["1"]),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, ["null", "true"], ["0"]),
        ({"allOf": [{"type": "null"}]}, ["null"], ["0"]),
        ({"type": "array", "items": {"type": "null"}, "maxItems": 2}, ["[]", "[null,null]"], ["[null,null,null]"]),
        ({"type": "array", "prefixItems": [{"type": "null"}], "items": False}, ["[null]"], ["[]"]),
        (bounded(type="null"), ['{"a":null}'], ["{}"]),
        (
            {"$defs": {"x/y": {"type": "boolean"}}, "anyOf": [{"$ref": "#/$defs/x~1y"}, {"const": "é"}]},
            ["true", '"é"'],
            ["null"],
        ),
    ],
)
def test_schemas(source: dict[str, Any], good: list[str], bad: list[str]) -> None:
    grammar = Grammar.from_schema(source)
    assert [reply for reply in good if not accepts(grammar, reply)] == []
    assert [reply for reply in bad if accepts(grammar, reply)] == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (bounded(type="string"), "#/properties/a: a string without a bound\nadd maxLength"),
        (bounded(type="array", items={"type": "null"}), "#/properties/a: an array without a bound"),
        (bounded(type="object"), "#/properties/a: an object with free keys"),
        (
            bounded(type="string", maxlength=3),
            "#/properties/a: 'maxlength' cannot be kept here\ndid you mean 'maxLength'",
        ),
        (bounded(type="array", items={}, maxItems=2), "#/properties/a/items: no type"),
        (bounded(type="strin"), "#/properties/a: the type 'strin' is not known\ndid you mean 'string'"),
        (bounded(anyOf=[{"type": "null"}, {"type": "string"}]), "#/properties/a/anyOf/1: a string"),
        (bounded(type="string", pattern="^a+$"), "#/properties/a: the pattern '^a+$' has an open repetition"),
        (bounded(type="string", pattern="a"), "#/properties/a: a pattern must say the whole string"),
        (bounded(type="string", format="email"), "#/properties/a: the format 'email' is not known"),
        (bounded(type="number", minimum=0.5), "#/properties/a: minimum must be a whole number"),
        ({"$defs": {"t": bounded(**{"$ref": "#/$defs/t"})}, "$ref": "#/$defs/t"}, "refers to itself"),
        ({"$ref": "#/$defs/none"}, "nothing is at"),
        ({"$ref": "http://x/y"}, "leads out of the schema"),
        ({"not": {"type": "null"}, "type": "null"}, "#: 'not' cannot be kept here"),
        ({"type": "object", "properties": {"a": {"const": 1}}, "required": ["b"]}, "`required` names 'b'"),
        ({"type": "array", "items": {"const": 1}, "maxItems": 2, "uniqueItems": True}, "'uniqueItems' cannot be kept"),
    ],
)
def test_what_no_grammar_can_keep_names_its_place(source: dict[str, Any], what: str) -> None:
    with pytest.raises(Problem, match=re.escape(what)):
        Grammar.from_schema(source)


JUNK = ["x", -1, None, 1.5, True, float("nan"), float("inf"), {}, {"a": 1}, [], [1], [[]], {1}, object(), "\ud800"]
WHOLE: list[dict[str, Any]] = [
    {"type": "string", "minLength": 0, "maxLength": 3},
    {"type": "string", "pattern": "^a$", "maxLength": 3},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 0, "maximum": 3, "exclusiveMinimum": -1, "exclusiveMaximum": 4},
    {"type": "number", "minimum": 0, "maximum": 3},
    {"type": "array", "items": {"type": "null"}, "minItems": 0, "maxItems": 2},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": False},
    {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"], "additionalProperties": False},
    *({keyword: [{"type": "null"}]} for keyword in ("anyOf", "oneOf", "allOf")),
    {"$ref": "#/$defs/t", "$defs": {"t": {"type": "null"}}},
    {"enum": ["a"]},
    {"const": "a"},
]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
@pytest.mark.parametrize(("whole", "keyword"), [(whole, keyword) for whole in WHOLE for keyword in whole])
def test_a_value_that_means_nothing_names_its_place(whole: dict[str, Any], keyword: str, junk: Any) -> None:
    """Every keyword with every kind of value: a grammar, or a Problem with the path; never an error of Python's own."""
    try:
        Grammar.from_schema({**bounded(type="null"), "properties": {"a": {**whole, keyword: junk}}})
    except Problem as problem:
        assert "#/properties/a" in problem.what and "\n" not in problem.what + problem.advice
    except ValueError as error:
        assert "nothing satisfies this grammar" in str(error)


def test_a_length_that_is_no_number() -> None:
    with pytest.raises(Problem, match="#: maxLength must be a whole number, 0 or more, not 'x'"):
        Grammar.from_schema({"type": "string", "maxLength": "x"})


class Point(BaseModel):
    label: str = Field(max_length=4)
    kind: Literal["here", "there"]


class Route(BaseModel):
    points: list[Point] = Field(min_length=1, max_length=2)
    note: str | None = Field(default=None, max_length=5)
    count: int = Field(ge=0, le=20)


def test_pydantic_models() -> None:
    grammar = Grammar.from_type(Route)
    reply = '{"points":[{"label":"x","kind":"here"}],"note":null,"count":20}'
    assert accepts(grammar, reply) and accepts(grammar, reply.replace('"note":null,', ""))
    assert Route.model_validate_json(reply).count == 20
    assert not accepts(grammar, reply.replace("20", "21"))


def test_other_types() -> None:
    grammar = Grammar.from_type(Literal["yes", "no"])
    assert accepts(grammar, "yes") and not accepts(grammar, "maybe")
    assert accepts(Grammar.from_type(int), "-12") and accepts(Grammar.from_type(float), "0.25")
    with pytest.raises(Problem, match="the type str does not bound its replies"):
        Grammar.from_type(str)
