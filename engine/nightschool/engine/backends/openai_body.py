"""A request as the JSON that a server takes, and the JSON that it answers as a reply.

The seed goes along where something is drawn; top_k and repetition_penalty only to vLLM, which would otherwise fill them in
by the model's own defaults. A reply's thinking is what the server tells apart, or what stands before the closing mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightschool.engine.models import Thinking
from nightschool.engine.types import Finish, Message, Sampling, Usage

FINISHES: Mapping[str, Finish] = {"stop": "stop", "length": "length"}


@dataclass(frozen=True, slots=True)
class Said:
    """One reply, as the server gave it."""

    text: str
    thinking: str
    finish: Finish
    usage: Usage
    model: str | None = None
    """Who answered, if the server tells."""


def drawing(sampling: Sampling, *, free: bool, vllm: bool, stops: Sequence[str] = ()) -> dict[str, Any]:
    """How a reply is drawn; `free`: under no grammar, so that stops and the penalty apply."""
    keys: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p, "stream": False}
    if sampling.temperature > 0:
        keys["seed"] = sampling.seed
    if free and (stop := [*sampling.stop, *stops]):
        keys["stop"] = stop
    if vllm:
        penalty = sampling.repetition_penalty if free else 1.0
        keys |= {"top_k": sampling.top_k, "min_p": 0.0, "repetition_penalty": penalty}
    return keys


def conversation(messages: Sequence[Message], thinking: Thinking | None, think: bool) -> dict[str, Any]:
    """The messages, and the template's switch for thinking if it has one."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    switch = {} if thinking is None else {"chat_template_kwargs": {thinking.kwarg: think}}
    return {"messages": turns, **switch}


def read_chat(answer: Any, thinking: Thinking | None) -> Said:
    """The reply in an answer of the chat endpoint. Raises as its parts are missing."""
    choice = answer["choices"][0]
    message = choice["message"]
    text = _text(message["content"])
    thought = _text(message.get("reasoning_content") or message.get("reasoning"))
    opening = thinking.open.strip() if thinking is not None else ""
    if thinking is not None and not thought and opening and text.lstrip().startswith(opening):
        thought, text = _split(text, thinking)
    return Said(text, thought, FINISHES[choice["finish_reason"]], _usage(answer), _model(answer))


def read_completion(answer: Any, thinking: Thinking | None) -> Said:
    """The reply in an answer of the completions endpoint; `thinking` if the prompt has opened it."""
    choice = answer["choices"][0]
    text = _text(choice["text"])
    thought, text = ("", text) if thinking is None else _split(text, thinking)
    return Said(text, thought, FINISHES[choice["finish_reason"]], _usage(answer), _model(answer))


def added(one: Usage, other: Usage) -> Usage:
    """The tokens of both; unknown where one is."""
    return Usage(
        _sum(one.prompt_tokens, other.prompt_tokens),
        _sum(one.cached_tokens, other.cached_tokens),
        _sum(one.generated_tokens, other.generated_tokens),
        _sum(one.forced_tokens, other.forced_tokens),
        _sum(one.thinking_tokens, other.thinking_tokens),
    )


def _split(text: str, thinking: Thinking) -> tuple[str, str]:
    """What was thought, and what was said after it; thinking that never ends says nothing."""
    before, _, after = text.partition(thinking.close.strip())
    return before.strip().removeprefix(thinking.open.strip()).strip(), after.lstrip("\n")


def _text(told: Any) -> str:
    """A text that can be written down: JSON can spell halves of characters."""
    if not isinstance(told, str | None):
        raise TypeError("no text")
    return (told or "").encode("utf-8", "replace").decode()


def _usage(answer: Mapping[str, Any]) -> Usage:
    """What the server counted; None where it does not tell."""
    told = answer.get("usage") or {}
    prompt, generated = told.get("prompt_tokens_details") or {}, told.get("completion_tokens_details") or {}
    return Usage(
        _number(told.get("prompt_tokens")),
        _number(prompt.get("cached_tokens")),
        _number(told.get("completion_tokens")),
        None,
        _number(generated.get("reasoning_tokens")),
    )


def _model(answer: Mapping[str, Any]) -> str | None:
    told = answer.get("model")
    return told if isinstance(told, str) else None


def _number(told: Any) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
