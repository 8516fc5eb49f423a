"""Front matter: the YAML between two `---` lines at the top of a Markdown file.

What we write reads the same in every YAML parser, strict ones too: block style, strings in double quotes
unless they are one plain word, and never three hyphens in a row, so that whoever splits the file at `---`
finds the front matter. What we read is the part of YAML that JSON has: a date, `yes` or `007` is text, a key
is text; anchors and tags are refused. The body is kept exactly. Which keys there are is left to others.
"""

import copy
import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from nightschool.disk.errors import Problem

_FENCE = "---"
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.]*([-/][A-Za-z0-9_.]+)*")
_NOT_TEXT = {"y", "yes", "n", "no", "on", "off", "true", "false", "null"}  # in some YAML, though not in ours
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\xa0\xad\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_LONGEST_KEY = 100  # YAML allows 1024 characters, escapes and quotes included


def split(text: str, name: str = "front matter") -> tuple[dict[str, Any], str]:
    """The front matter, empty if there is none, and the body; `name` is what a Problem calls the file."""
    lines = text.removeprefix("\ufeff").split("\n")
    if not _is_fence(lines[0]):
        return {}, text
    end = next((number for number, line in enumerate(lines[1:], start=1) if _is_fence(line)), None)
    if end is None:
        raise Problem(f"{name}:1: the front matter has no end", "close it with a line ---")
    front = _load("\n".join(lines[1:end]) + "\n", name)
    return copy.deepcopy(front), "\n".join(lines[end + 1 :])  # what callers do with theirs is their own


def join(front: Mapping[str, Any], body: str) -> str:
    """The text with this front matter (text, numbers, bools, None, lists, mappings) and this body."""
    return "\n".join([_FENCE, *_block(front, ""), _FENCE, body])


def _is_fence(line: str) -> bool:
    return line.rstrip(" \t\r") == _FENCE


def _block(value: object, indent: str) -> list[str]:
    """The lines of a mapping or list that is not empty; of any other value none."""
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or len(key) > _LONGEST_KEY:
                raise ValueError(f"a key must be text of at most {_LONGEST_KEY} characters: {key!r:.200}")
            below = _block(item, indent + "  ")
            lead = f"{indent}{_text(key)}:"
            lines += [lead, *below] if below else [f"{lead} {_scalar(item)}"]
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for item in value:
            first, *rest = _block(item, indent + "  ") or [_scalar(item)]
            lines += [f"{indent}- {first.lstrip()}", *rest]
    return lines


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    if isinstance(value, float) and "." not in repr(value):
        return repr(value).replace("e", ".0e")  # without the point, 1e+16 is text to some
    if isinstance(value, Mapping):
        return "{}"
    return json.dumps(value)  # TypeError for what YAML like JSON cannot say


def _text(value: str) -> str:
    if _WORD.fullmatch(value) and value.casefold() not in _NOT_TEXT:
        return value
    escaped = _ESCAPED.sub(_escape, value).replace("---", r"--\x2d")
    return f'"{escaped}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    short = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t"}
    return short.get(character) or (f"\\x{ord(character):02x}" if character <= "\xff" else f"\\u{ord(character):04x}")


class _Loader(yaml.SafeLoader):
    """YAML with the types of JSON, without anchors, tags and repeated keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor or getattr(event, "tag", None):
            raise yaml.composer.ComposerError(None, None, "anchors and tags are not allowed", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        found: dict[Hashable, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
            if key.value in found:
                problem = f"the key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            found[key.value] = self.construct_object(value, deep=True)
        return found


for _type, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?(0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_type}", re.compile(f"(?:{_pattern})$"), _first)


@lru_cache(maxsize=512)  # the same files are looked at again and again, and YAML is slow
def _load(source: str, name: str) -> dict[str, Any]:
    advice = "mend it, or put the value in double quotes"
    try:
        front = yaml.load(source, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 2}" if mark else ""
        raise Problem(f"{name}{line}: {error.problem or error.context}", advice) from error
    except yaml.reader.ReaderError as error:
        line = f":{source.count(chr(10), 0, error.position) + 2}"
        raise Problem(f"{name}{line}: character U+{error.character:04X} is not allowed", advice) from error
    except (ValueError, RecursionError) as error:
        raise Problem(f"{name}: {error}", advice) from error
    if not isinstance(front, dict | None):
        raise Problem(f"{name}:2: the front matter is not a list of `key: value` lines", advice)
    return front or {}
