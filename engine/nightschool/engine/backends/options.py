"""The options of [models.ALIAS.BACKEND], read strictly; which there are is said by each backend that has any."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nightschool.disk.errors import Problem, nearest
from nightschool.engine.models import ModelSpec


class BackendOptions(BaseModel):
    """A table of options."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


T = TypeVar("T", bound=BackendOptions)


def read(spec: ModelSpec, kind: type[T], backend: str, page: str) -> T:
    """The options of a model's entry; `page` of docs/ explains them. A Problem for one that is unknown or wrong."""
    try:
        return kind.model_validate(dict(spec.options))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=True)[0]
    where, name = place(spec, backend), str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        raise Problem(f"{where}: unknown option {name!r}", nearest(name, kind.model_fields))
    told = first["msg"].removeprefix("Input ")
    raise Problem(f"{where}: {name} {told}, not {first['input']!r:.60}", f"docs/{page} explains the options")


def place(spec: ModelSpec, backend: str) -> str:
    """Where the options stand, for people."""
    table = f"[models.{spec.alias}.{backend}]"
    return f"{spec.origin}: {table}" if spec.origin else table
