"""One models.toml, read strictly: text -> tables that are known to be well formed.

An unknown key, a wrong type and broken TOML are Problems that name the file, the line and, for a key, the
nearest known one. Which file wins, and what an entry means for one backend, is `models.py`. models.toml
explains the format.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from nightschool.disk.errors import Problem, nearest

Backend = Literal["mlx", "vllm", "transformers", "openai"]
BACKENDS: tuple[str, ...] = get_args(Backend)

Text = Annotated[str, StringConstraints(min_length=1)]
Alias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
SOURCE = re.compile(
    r"hf:[\w.-]+/[\w.-]+@[\w./-]+|pypi:[A-Za-z0-9][\w.-]*==[\w.+!-]+#\S+|path:.+|https?://\S+", re.ASCII
)
_EXAMPLE = "hf:REPO@REVISION, pypi:NAME==VERSION#FILE, path:DIR or http://HOST:PORT/v1"


class Strict(BaseModel):
    """A table that refuses keys it does not know, and types that it would have to guess."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ThinkingTable(Strict):
    """The template's switch for thinking, and the tokens around it."""

    kwarg: Text
    open: Text
    close: Text


class SamplingTable(Strict):
    """How this model's replies are drawn; the loop says the rest (temperature, length)."""

    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None
    think_tokens: Annotated[int, Field(ge=0)] | None = None


class Keys(Strict):
    """The keys of an entry that a backend's table may override."""

    source: Text | None = None
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    context: Annotated[int, Field(ge=256)] | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] | None = None
    template: Text | None = None
    thinking: ThinkingTable | None = None
    sampling: SamplingTable | None = None
    weights_gb: Annotated[float, Field(gt=0)] | None = None


class BackendTable(Keys):
    """What differs on one backend; whatever is no key of an entry is the backend's own option."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class EntryTable(Keys):
    """One [models.ALIAS]."""

    backend: Backend | None = None
    mlx: BackendTable | None = None
    vllm: BackendTable | None = None
    transformers: BackendTable | None = None
    openai: BackendTable | None = None


class RolesTable(Strict):
    """[roles]: aliases; a role left out follows the student."""

    student: Alias | None = None
    maintainer: Alias | None = None
    proposer: Alias | None = None
    judge: Alias | None = None


class FileTable(Strict):
    """A whole models.toml."""

    roles: RolesTable = RolesTable()
    models: dict[Alias, EntryTable] = {}


def parse(text: str, path: Path) -> FileTable:
    """The tables of one models.toml; `path` is only named in Problems."""
    try:
        raw = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError as error:  # a TOMLDecodeError, or a number that is too long for Python
        raise _broken(str(error), path) from None
    try:
        tables = FileTable.model_validate(raw)
    except ValidationError as error:
        raise _invalid(error, text, path) from None
    for alias, entry in tables.models.items():
        _check_entry(alias, entry, text, path)
    return tables


def _broken(message: str, path: Path) -> Problem:
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    where = f"{path}:{found[1]}" if found else f"{path} (at its end)"
    return Problem(f"{where}: not TOML: {message.split(' (at ')[0]}", "mend that line")


def _invalid(error: ValidationError, text: str, path: Path) -> Problem:
    first = error.errors(include_url=False, include_context=False, include_input=True)[0]
    location = [str(part) for part in first["loc"] if part != "[key]"]
    where, name = f"{path}{_line(text, location)}", ".".join(location)
    if first["type"] == "extra_forbidden":
        return Problem(f"{where}: unknown key {name!r}", nearest(location[-1], _known(location[:-1])))
    if "[key]" in first["loc"]:
        return Problem(f"{where}: {location[-1]!r} is no alias", "an alias is made of a-z, 0-9 and '-'")
    told = first["msg"].removeprefix("Input ")
    return Problem(f"{where}: {name} {told}, not {first['input']!r:.60}", "models.toml explains every key")


def _known(location: list[str]) -> list[str]:
    """The keys that a table at this place has."""
    if not location:
        return list(FileTable.model_fields)
    table: type[BaseModel] = RolesTable if location[0] == "roles" else EntryTable
    if location[-1] == "thinking":
        table = ThinkingTable
    elif location[-1] == "sampling":
        table = SamplingTable
    return list(table.model_fields)


def _check_entry(alias: str, entry: EntryTable, text: str, path: Path) -> None:
    """What a type cannot say: sources, templates, and options that are misspelt keys."""
    below: list[tuple[tuple[str, ...], Keys]] = [((name,), getattr(entry, name)) for name in BACKENDS]
    tables = [((), entry), *((place, table) for place, table in below if table is not None)]
    for inner, table in tables:
        place = ["models", alias, *inner]
        if table.source is not None and not SOURCE.fullmatch(table.source):
            where = f"{path}{_line(text, [*place, 'source'])}"
            raise Problem(f"{where}: {table.source!r} is no source", f"write {_EXAMPLE}")
        if table.template not in (None, "model", "plain") and "{" not in str(table.template):
            where = f"{path}{_line(text, [*place, 'template'])}"
            raise Problem(f"{where}: {table.template!r} is no template", "write 'model', 'plain' or a Jinja text")
        for option in table.model_extra or ():
            close = difflib.get_close_matches(option, Keys.model_fields, n=1, cutoff=0.8)
            if close:
                where = f"{path}{_line(text, [*place, option])}"
                raise Problem(f"{where}: unknown key {'.'.join([*place, option])!r}", f"did you mean {close[0]!r}?")
    if entry.source is None and not any(table.source for _, table in tables):
        raise Problem(
            f"{path}{_line(text, ['models', alias])}: [models.{alias}] has no source",
            f"write source = {_EXAMPLE}",
        )


def _line(text: str, location: list[str]) -> str:
    """`:LINE` of a key, or of the nearest table above it; empty when it cannot be told."""
    table, found = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+([^\]]+)\]", line):
            table = re.sub(r"[\"'\s]", "", header[1])
            names = table.split(".")
            if names[: len(location)] == location:
                return f":{number}"
            if names == location[: len(names)]:
                found = f":{number}"
        elif (key := re.match(r"\s*[\"']?([\w-]+)[\"']?\s*=", line)) and location:
            here = [*(table.split(".") if table else []), key[1]]
            if here == location[: len(here)]:
                return f":{number}"
    return found


def dump(table: BaseModel) -> dict[str, Any]:
    """The keys that the file sets, as plain values."""
    return table.model_dump(exclude_unset=True, exclude_none=True)
