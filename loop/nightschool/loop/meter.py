"""One role's model as the loop sees it: what a text costs, how much of it fits, how its replies are drawn.

Counts are the engine's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nightschool.engine.types import Message, Sampling
from nightschool.loop.excerpts import shrink

Count = Callable[[Sequence[Message]], int]
THINK_TOKENS = 512
"""Of a model whose entry does not tell."""
THINK_MARKS = 8
"""Tokens that open and close the thinking, at most."""


@dataclass(frozen=True, slots=True)
class Meter:
    """Counts tokens for one model with a context of `context` tokens; `sampling` holds its entry's defaults."""

    count: Count
    context: int
    sampling: Mapping[str, float | int] = field(default_factory=dict)
    thinks: bool = True
    """Whether the model can think at all; where nobody told, room is kept for it."""

    def draw(
        self, *, max_tokens: int, temperature: float, seed: int, stop: tuple[str, ...] = (), think: bool = False
    ) -> Sampling:
        """How a reply is drawn: greedy, or with the model's own top_p and top_k."""
        noisy = temperature > 0
        return Sampling(
            max_tokens=max_tokens,
            think_tokens=self._think_tokens(think),
            temperature=temperature,
            top_p=float(self.sampling.get("top_p", 1.0)) if noisy else 1.0,
            top_k=int(self.sampling.get("top_k", 0)) if noisy else 0,
            repetition_penalty=float(self.sampling.get("repetition_penalty", 1.0)),
            stop=stop,
            seed=seed,
        )

    def thinking(self, think: bool) -> int:
        """Tokens that thinking takes of the context, at most."""
        return self._think_tokens(think) + THINK_MARKS if think and self.thinks else 0

    def text(self, text: str) -> int:
        """Tokens of a text as a user's message (the template's own tokens included)."""
        return self.count((Message("user", text),))

    def system(self, text: str) -> int:
        """Tokens of a system prompt before an empty message: a template may say it in its own way, even twice."""
        return self.count((Message("system", text), Message("user", "")))

    def fit(self, text: str, tokens: int, chars: int | None = None) -> str:
        """The text, or its head and tail so that it costs at most `tokens` and has at most `chars` characters."""
        limit = len(text) if chars is None else min(chars, len(text))
        shown = shrink(text, limit)
        while limit > 16 and (cost := self.text(shown)) > tokens:
            limit = min(limit * 3 // 4, limit * tokens // max(cost, 1))
            shown = shrink(text, limit)
        return shown

    def take(self, parts: Sequence[str], tokens: int) -> tuple[list[int], list[int]]:
        """Which of the parts fit in `tokens`, the first ones first, and which are left out (their indices)."""
        kept: list[int] = []
        least = self.text("")
        for index, part in enumerate(parts):
            if tokens < least:
                break
            if (cost := self.text(part)) <= tokens:
                tokens -= cost
                kept.append(index)
        return kept, sorted({*range(len(parts))} - {*kept})

    def _think_tokens(self, think: bool) -> int:
        return int(self.sampling.get("think_tokens", THINK_TOKENS)) if think and self.thinks else 0
