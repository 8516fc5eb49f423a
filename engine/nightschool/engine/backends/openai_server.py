"""What a server is: the model that it serves, its maker and version, and the longest conversation that it takes.

Of what a server does not tell, nothing is assumed but the name of the model, which must be among those that it lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from nightschool.disk.errors import Problem, nearest
from nightschool.engine.backends.openai_options import Options, place
from nightschool.engine.backends.openai_wire import Refused, Unclear, Wire
from nightschool.engine.models import ModelSpec

VERSIONS = {"/version": "version", "/api/version": "version", "/props": "build_info"}
"""Where servers tell their version: vLLM and its kin, Ollama, llama.cpp."""
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Served:
    """A model on a server. `context`: the tokens that it takes, if the server tells."""

    model: str
    maker: str | None = None
    version: str | None = None
    context: int | None = None

    @property
    def is_vllm(self) -> bool:
        """Whether it takes what vLLM takes beyond the OpenAI protocol."""
        return self.maker == "vllm"

    def __str__(self) -> str:
        return " ".join(part for part in (self.maker or "a server", self.version) if part)


def look(wire: Wire, spec: ModelSpec, options: Options) -> Served:
    """Ask the server. Raises EngineError if it does not answer, Problem if it has not the model."""
    entry = _entry(_listed(wire, options), options, spec)
    context = entry.get("max_model_len")
    maker = entry.get("owned_by")
    served = Served(
        str(entry["id"]),
        _name(maker),
        _version(wire),
        context if isinstance(context, int) else None,
    )
    if served.context is not None and spec.context > served.context:
        raise Problem(
            f"{spec.alias} has a context of {spec.context} tokens, but the server takes {served.context}",
            f"lower `context` of {spec.alias} in {spec.origin or 'models.toml'}, or raise the server's",
        )
    return served


def _listed(wire: Wire, options: Options) -> list[dict[str, Any]]:
    """The models that the server lists; without a list (mlx_lm.server may have none), the one that it is said to have."""
    try:
        return wire.ask("models", None, _entries, quick=True)
    except (Refused, Unclear) as failure:
        if options.model is None or (isinstance(failure, Refused) and failure.status != _NOT_FOUND):
            raise
        return [{"id": options.model}]


def _entries(answer: Any) -> list[dict[str, Any]]:
    return [dict(entry) for entry in answer["data"] if _name(entry["id"])]


def _entry(listed: list[dict[str, Any]], options: Options, spec: ModelSpec) -> dict[str, Any]:
    if not listed:
        raise Problem(f"the server of {spec.alias} has no model", "load one on the server")
    wanted = options.model
    if wanted is None:
        return listed[0]
    for name in (wanted, f"{wanted}:latest"):
        for entry in listed:
            if entry["id"] == name:
                return entry
    raise Problem(
        f"{place(spec)}: the server has no model {wanted!r}", nearest(wanted, (entry["id"] for entry in listed))
    )


def _version(wire: Wire) -> str | None:
    for name, key in VERSIONS.items():
        try:
            told = _name(wire.ask(name, None, itemgetter(key), quick=True, retries=0))
        except Problem:
            continue
        if told:
            return told
    return None


def _name(told: object) -> str | None:
    """A name as a server tells it; None for what is none, or would act on a terminal."""
    return told if isinstance(told, str) and told and told.isprintable() else None
