"""A conversation as the text that a model expects, with every content kept apart from the words of the template.

The template is the model folder's own (chat_template.jinja or tokenizer_config.json), `plain`, or a Jinja text of
models.toml. It never sees a content: it gets a placeholder between the content's own outer white space (many
templates trim), so whatever a message says can neither steer the template nor become one of its control tokens.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from nightschool.disk.errors import Problem
from nightschool.engine.types import Message

PLAIN = (
    "{{ auto_bos }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content | trim }}\n\n"
    "{% elif m.role == 'user' %}Question: {{ m.content | trim }}\n"
    "{% else %}Answer: {{ m.content | trim }}\n\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Answer:{% endif %}"
)
PLAIN_STOP = "\nQuestion:"
TODAY = datetime.date(2025, 1, 1)
"""The date for templates that ask for it: a prompt must not depend on when it is made."""

_MARK = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a rendered prompt: the template's own words, or a message's content."""

    text: str
    content: bool


class Template:
    """A compiled chat template and the variables that it always gets."""

    def __init__(self, name: str, source: str, variables: Mapping[str, Any]) -> None:
        """`name` is the model's alias, for error messages."""
        self.name = name
        self.variables = variables
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise Problem(f"the chat template of {name} is no valid Jinja: {_line(error)}", _ADVICE) from None

    def render(self, messages: Sequence[Message], generate: bool, **variables: Any) -> list[Piece]:
        """The prompt in pieces; `generate` asks for the opening of the model's next turn."""
        turns = [{"role": m.role, "content": _placeholder(i, m.content)} for i, m in enumerate(messages)]
        try:
            text = self._template.render(
                **{**self.variables, **variables}, messages=turns, add_generation_prompt=generate
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise Problem(f"the chat template of {self.name} failed: {_line(error)}", _ADVICE) from None
        return self._pieces(text, messages)

    def _pieces(self, text: str, messages: Sequence[Message]) -> list[Piece]:
        parts = _MARK.split(text)
        shown = {int(index) for index in parts[1::2]}
        for i, message in enumerate(messages):
            if message.content.strip() and i not in shown:
                raise Problem(f"the chat template of {self.name} leaves out message {i + 1} ({message.role})", _ADVICE)
        pieces = [
            Piece(messages[int(part)].content.strip() if i % 2 else part, bool(i % 2)) for i, part in enumerate(parts)
        ]
        return [piece for piece in pieces if piece.text]


_ADVICE = 'set template = "plain" or another Jinja text for it in models.toml'


def load_template(alias: str, template: str, folder: Path, auto_bos: str) -> Template:
    """The template of a model: `template` is "model", "plain" or a Jinja text."""
    config = read_json(folder / "tokenizer_config.json")
    source = {"model": None, "plain": PLAIN}.get(template, template)
    if source is None:
        source = own_template(folder)
    if source is None:
        raise Problem(f"{alias} has no chat template of its own", _ADVICE)
    tokens = {key: _text(value) for key, value in config.items() if key.endswith("_token")}
    defaults = {"bos_token": "", "eos_token": "", "tools": None, "documents": None, "auto_bos": auto_bos}
    return Template(alias, source, {**defaults, **tokens})


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the model folder; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Problem(f"{path} is not valid JSON: {error}", "pull the model again") from None
    return value if isinstance(value, dict) else {}


def own_template(folder: Path) -> str | None:
    """The chat template that comes with a model; `None` if none does."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    own = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(own, list):
        named = {entry["name"]: entry["template"] for entry in own}
        own = named.get("default") or next(iter(named.values()), None)
    return own


def _text(token: Any) -> str:
    """A special token of tokenizer_config.json: a text, or an object around it."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _placeholder(index: int, content: str) -> str:
    core = content.strip()
    if not core:
        return content
    start = content.index(core)
    return f"{content[:start]}\ue000{index}\ue001{content[start + len(core) :]}"


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """Jinja as the makers of chat templates expect it."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = TODAY.strftime
    return environment


def _tojson(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what is trained on; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node | list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
