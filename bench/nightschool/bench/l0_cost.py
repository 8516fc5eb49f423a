"""What so many tokens of standing text cost on this machine: context, bytes of KV cache, and seconds of prefill.

Bytes are told by the model's own config.json. Seconds are measured with the model: cold, each time behind other first words,
so that nothing of it can be in the prefix cache; and cached, the same text again before another question. A text that is
longer than the model's context is timed all the same, with the limit raised, and the record says so: the work is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nightschool.engine.models import ModelSpec

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.types import Usage

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
ROOM = 64
"""Tokens beside the standing text: the question, and the words that make a prompt new."""
PATIENCE = 60.0
"""Seconds of cold prefill after which a text is not timed again."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """Seconds to the first token, a sample each time; prompt tokens as the engine counted them, and how many were cached."""

    cold: tuple[float, ...]
    cached: tuple[float, ...]
    tokens: int | None
    reused: int | None


def kv_bytes(spec: ModelSpec) -> int | None:
    """Bytes of keys and values that one token takes; None where the model's files or its dtype do not tell."""
    from nightschool.engine.template import read_json

    config = read_json(spec.folder / "config.json")
    config = config.get("text_config") or config
    try:
        return _attending(config) * 2 * _heads(config) * _size(config) * BYTES[spec.dtype]
    except (KeyError, TypeError):
        return None


def room_for(spec: ModelSpec, tokens: int) -> ModelSpec:
    """The model with the text once, as it stands, in its prompt, and a context that holds so many tokens."""
    return replace(spec, template="plain", context=max(spec.context, tokens + ROOM))


def prefill(engine: Engine, text: str, repeats: int, tell: Callable[[str], None] = lambda _: None) -> Prefill:
    """Time the standing text as a system prompt; `tell` hears of each step. The caller has warmed the engine up."""
    cold, cached = [], []
    usage: Usage | None = None
    for number in range(repeats):
        tell(f"prefill, {number + 1} of {repeats}")
        opened = f"Session {time.time_ns()}.\n\n{text}"
        cold.append(_first_token(engine, opened, "Begin.")[0])
        seconds, usage = _first_token(engine, opened, "Go on.")
        cached.append(seconds)
        if sum(cold) > PATIENCE:
            break
    return Prefill(
        tuple(cold), tuple(cached), usage.prompt_tokens if usage else None, usage.cached_tokens if usage else None
    )


def warm_up(engine: Engine) -> None:
    """One short prompt, so that what is only done once is not timed."""
    _first_token(engine, "Be brief.", "Begin.")


def _first_token(engine: Engine, system: str, question: str) -> tuple[float, Usage]:
    from nightschool.engine.types import Message, Request, Sampling

    engine.submit(Request((Message("system", system), Message("user", question)), sampling=Sampling(max_tokens=1)))
    began = time.perf_counter()
    while not (done := engine.step()):
        pass
    return time.perf_counter() - began, done[0][1].usage


def _attending(config: Mapping[str, Any]) -> int:
    """Layers that keep every token; the others' states do not grow."""
    kinds = config.get("layer_types")
    return sum("attention" in kind and "linear" not in kind for kind in kinds) if kinds else config["num_hidden_layers"]


def _heads(config: Mapping[str, Any]) -> int:
    return int(config.get("num_key_value_heads") or config["num_attention_heads"])


def _size(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
