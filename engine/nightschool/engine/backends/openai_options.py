"""The options of [models.ALIAS.openai], read strictly.

`model` (the server's name of it; default: the first that it lists), `endpoint` ("chat", or "completions" for a prompt that
is made here), `grammar` ("lark", "json_schema", "retry", or "auto": the first of them that the server obeys), `tokenizer` (a
folder with the model's tokenizer.json and template), `timeout` (seconds for one try), `retries` and `backoff` (seconds
before the first of them, doubled each time), `width` (requests at once), `api_key_env` (the variable that holds the key).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from nightschool.disk.errors import Problem
from nightschool.engine.backends import options as tables
from nightschool.engine.models import ModelSpec

Text = Annotated[str, StringConstraints(min_length=1)]
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Endpoint = Literal["chat", "completions"]


class Options(tables.BackendOptions):
    """[models.ALIAS.openai]."""

    model: Text | None = None
    endpoint: Endpoint | None = None
    grammar: Literal["auto", "lark", "json_schema", "retry"] = "auto"
    tokenizer: Text | None = None
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    retries: Annotated[int, Field(ge=0, le=100)] = 5
    backoff: Annotated[float, Field(ge=0, le=60)] = 0.5
    width: Annotated[int, Field(ge=1, le=4096)] | None = None
    api_key_env: Text | None = None


def read_options(spec: ModelSpec) -> Options:
    """The options of a model's entry; a Problem for one that is unknown, or that does not go with the others."""
    if spec.kind != "http":
        raise Problem(f"{spec.alias} is on no server", f'give {place(spec)} a source = "http://HOST:PORT/v1"')
    key = spec.options.get("api_key_env", "A_NAME")
    if not (isinstance(key, str) and VARIABLE.fullmatch(key)):  # what stands there may be the key itself
        raise Problem(f"{place(spec)}: api_key_env is no name of a variable", "the key itself belongs in no file")
    options = tables.read(spec, Options, "openai", "servers.md")
    if spec.template != "model" and options.endpoint == "chat":
        raise Problem(
            f"{spec.alias} has a template of its own, but the server's chat endpoint uses the server's",
            f'write endpoint = "completions" in {place(spec)}, or leave out `template`',
        )
    if endpoint(spec, options) == "completions" and options.tokenizer is None:
        raise Problem(
            f"the prompts of {spec.alias} are made here, which takes its tokenizer",
            f'give {place(spec)} tokenizer = "DIR", a folder with the tokenizer.json of the served model',
        )
    return options


def endpoint(spec: ModelSpec, options: Options) -> Endpoint:
    """Where requests go: to the completions endpoint if the prompt is made here, as an entry's own template demands."""
    return options.endpoint or ("chat" if spec.template == "model" else "completions")


def tokenizer_folder(spec: ModelSpec, name: str) -> Path:
    """The folder that `tokenizer` names, as seen from the models.toml that names it."""
    folder = Path(name).expanduser()
    return folder if folder.is_absolute() or not spec.origin else Path(spec.origin).parent / folder


def place(spec: ModelSpec) -> str:
    """Where the options stand, for people."""
    return tables.place(spec, "openai")
