"""Strict models: an unknown key is an error that names the nearest known one, and every error is a `Problem`.

Base class and field types of what people write by hand in a suite. What the fields mean is left to the models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from nightschool.disk.errors import Problem, nearest

SEE_FORMAT = "docs/suites.md shows the format"


class Strict(BaseModel):
    """A frozen model that coerces nothing and knows its keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, data: Any) -> Any:
        aliases = {name: field.validation_alias for name, field in cls.model_fields.items()}
        known = {*aliases, *(alias for alias in aliases.values() if isinstance(alias, str))}
        for key in data if isinstance(data, Mapping) else ():
            if key not in known:
                raise unknown("key", str(key), known)
        return data

    @classmethod
    def parse(cls, data: object, where: str) -> Self:
        """Build the model; `where` (a file and line) opens the sentence of a Problem."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise as_problem(error, where) from None


def unknown(what: str, name: str, known: Iterable[str]) -> PydanticCustomError:
    """The error of a validator for a name that is not among those known."""
    context = {"what": what, "name": repr(name), "advice": nearest(name, known)}
    return PydanticCustomError("unknown", "unknown {what} {name}", context | ({"key": name} if what == "key" else {}))


def key_of(error: ValidationError) -> str:
    """The key that the first error is about."""
    first = error.errors(include_url=False)[0]
    names = [part for part in first["loc"] if isinstance(part, str)]
    return str(first.get("ctx", {}).get("key") or (names[-1] if names else ""))


def as_problem(error: ValidationError, where: str) -> Problem:
    """The first of the errors, in two lines."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    path = _path(first["loc"])
    match first["type"]:
        case "unknown":
            return Problem(
                f"{where}: {first['msg']}{f' in {path}' if path not in ('', context['what']) else ''}",
                context["advice"],
            )
        case "missing":
            return Problem(f"{where}: {path} is missing", f"add it; {SEE_FORMAT}")
        case "union_tag_not_found":
            return Problem(f"{where}: {path}.kind is missing", f"add it; {SEE_FORMAT}")
        case "union_tag_invalid":
            known = re.findall(r"'([^']*)'", context["expected_tags"])
            return Problem(f"{where}: unknown {path}.kind {context['tag']!r}", nearest(context["tag"], known))
        case _:
            return Problem(f"{where}: {path}{': ' if path else ''}{_message(first)}", f"correct it; {SEE_FORMAT}")


def _path(location: tuple[int | str, ...]) -> str:
    """`grader.checks[0].pattern`; pydantic's own names of union members are left out."""
    path = ""
    for before, part in pairwise(("", *location)):
        if isinstance(part, int):
            path += f"[{part}]"
        elif before != "grader" and not isinstance(before, int):
            path += f".{part}" if path else part
    return path


def _message(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    message = error["msg"].removeprefix("Input ").replace("\n", " ")
    shown = repr(error["input"])
    return f"{message}, not {shown if len(shown) <= 60 else shown[:57] + '...'}"


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank")
    return text


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1:
        raise ValueError("must be one line")
    return text


Filled = Annotated[str, AfterValidator(_filled)]
Line = Annotated[Filled, AfterValidator(_one_line)]
