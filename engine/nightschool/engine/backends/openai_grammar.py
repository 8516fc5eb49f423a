"""Grammars on a server: how each kind of server is given one, and what its replies are worth under it.

A server that takes our Lark keeps every rule. One that takes a JSON schema keeps those that a schema can say, and writes
JSON as it likes: white space, escapes, the order of keys. So a reply is read as the JSON value that it is, written our
way, and then our own matcher has the last word. One that takes neither is asked until its reply happens to fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from nightschool.disk.errors import Problem
from nightschool.engine.grammar import Grammar, accepts, reach
from nightschool.engine.terms import encode

Form = Literal["structured_outputs", "guided_grammar", "json_schema", "retry"]
FORMS: Mapping[str, tuple[Form, ...]] = {
    "lark": ("structured_outputs", "guided_grammar"),
    "json_schema": ("json_schema",),
    "retry": ("retry",),
    "auto": ("structured_outputs", "guided_grammar", "json_schema"),
}
"""What each setting of `grammar` tries, the best first."""
LARK: tuple[Form, ...] = ("structured_outputs", "guided_grammar")
IN_WORDS: Mapping[Form, str] = {
    "structured_outputs": "takes our grammars",
    "guided_grammar": "takes our grammars, in the older way",
    "json_schema": "takes JSON schemas; what they cannot say is checked here, and asked for again",
    "retry": "is given no grammars: every reply is checked here, and asked for again",
}
SHOWN_SCHEMA = 3000
"""Characters of a schema that a model is shown when it is asked again."""
_FENCED = re.compile(r"```\w*\n(.*)\n?```", re.DOTALL)


def constrain(form: Form, grammar: Grammar, source: str | None = None) -> dict[str, Any]:
    """The keys that put a request under a grammar; `source` replaces its Lark (thinking before it)."""
    source = source or grammar.lark
    if form == "structured_outputs":
        return {"structured_outputs": {"grammar": source}}
    if form == "guided_grammar":
        return {"guided_grammar": source, "guided_decoding_backend": "guidance"}
    if form == "retry":
        return {}
    if grammar.portable is None:
        raise Problem(
            "the server takes JSON schemas only, and this grammar is not one of JSON",
            'use a server that takes Lark (docs/servers.md), or write grammar = "retry"',
        )
    named = {"name": "reply", "strict": True, "schema": grammar.portable}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def settle(grammar: Grammar, text: str) -> str | None:
    """The reply as the grammar has it: as it came, or the JSON value that it is, written our way. None: it is neither."""
    if accepts(grammar, text):
        return text
    bare = text.strip()
    fenced = _FENCED.fullmatch(bare)
    bare = fenced[1].strip() if fenced else bare
    try:
        value = json.loads(bare)
        again = encode(_arranged(value, grammar.portable)).decode()
    except (ValueError, RecursionError):
        again = bare
    return again if accepts(grammar, again) else None


def complaint(grammar: Grammar, text: str) -> str:
    """What a model is told about a reply that does not fit."""
    good, _ = reach(grammar, text)
    before = text.encode()[:good].decode("utf-8", "ignore")[-40:]
    where = f" after {before!r}" if before else " from its first character"
    told = f"This reply could not be used: it leaves the form that is asked for{where}. Reply again."
    schema = "" if grammar.portable is None else json.dumps(grammar.portable, ensure_ascii=False, separators=(",", ":"))
    if schema and len(schema) <= SHOWN_SCHEMA:
        told += f" Reply with one JSON value and nothing else, valid under this JSON schema: {schema}"
    return told


def _arranged(value: Any, schema: Mapping[str, Any] | None) -> Any:
    """The value with the keys of its objects in the order of the schema."""
    if schema is None:
        return value
    if isinstance(value, dict | list) and schema.get("const") == value:
        return schema["const"]
    if "anyOf" in schema:
        return _arranged(value, next((option for option in schema["anyOf"] if _fits(value, option)), None))
    if isinstance(value, dict) and isinstance(known := schema.get("properties"), Mapping):
        names = [*(name for name in known if name in value), *(name for name in value if name not in known)]
        return {name: _arranged(value[name], known.get(name)) for name in names}
    if isinstance(value, list):
        fixed, items = schema.get("prefixItems", ()), schema.get("items")
        return [_arranged(item, fixed[at] if at < len(fixed) else items) for at, item in enumerate(value)]
    return value


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema).is_valid(value))
