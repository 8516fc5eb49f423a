"""What goes into an engine and what comes out: plain, frozen data, the same on every backend.

Token counts are counted by the engine, never estimated; `None` stands for what a server does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nightschool.disk.errors import MachineProblem, Problem

if TYPE_CHECKING:
    from nightschool.engine.grammar import Grammar

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. Its content is plain text: whatever spells a control token in it stays text."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is drawn. `seed` has 31 bits; `repetition_penalty` acts on free text only."""

    max_tokens: int = 256
    think_tokens: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no engine could honour."""
        if self.max_tokens < 1 or self.think_tokens < 0:
            raise ValueError(
                f"max_tokens must be at least 1 and think_tokens at least 0, not {self.max_tokens}, {self.think_tokens}"
            )
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0 or self.repetition_penalty <= 0:
            raise ValueError(f"sampling out of range: {self}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must fit in 31 bits, not {self.seed}")


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the model: a conversation, and the grammar its reply must obey (`None`: free text)."""

    messages: tuple[Message, ...]
    grammar: Grammar | None = None
    sampling: Sampling = field(default_factory=Sampling)
    think: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply: `cached` of `prompt` were not computed again; `forced` of `generated` were not sampled."""

    prompt_tokens: int | None = 0
    cached_tokens: int | None = 0
    generated_tokens: int | None = 0
    forced_tokens: int | None = 0
    thinking_tokens: int | None = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply.

    `valid`: it finished by itself, and a fresh byte-level matcher accepts the whole text (free text: it finished).
    """

    text: str
    finish: Finish
    usage: Usage
    thinking: str = ""
    valid: bool = True
    seconds: float = 0.0
    first_token_seconds: float = 0.0
    logprob: float = 0.0
    refused: int = 0
    """Replies that a server gave before this one, and that its grammar did not accept; `usage` holds their tokens too."""


class PromptTooLong(Problem):
    """The prompt and its reply do not fit the model's context; says which part, and how long."""


class EngineError(MachineProblem):
    """The engine failed: all its open tickets are lost. Never a verdict on a reply."""


class OutOfMemory(EngineError):
    """The device ran out of memory; a narrower batch may pass."""
