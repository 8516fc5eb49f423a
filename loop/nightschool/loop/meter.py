"""Token budgets: what a text costs one role's model, and how much of it fits. Counts are the engine's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nightschool.engine.types import Message
from nightschool.loop.excerpts import shrink

Count = Callable[[Sequence[Message]], int]


@dataclass(frozen=True, slots=True)
class Meter:
    """Counts tokens for one model with a context of `context` tokens."""

    count: Count
    context: int

    def text(self, text: str) -> int:
        """Tokens of a text as a user's message (the template's own tokens included)."""
        return self.count((Message("user", text),))

    def fit(self, text: str, tokens: int) -> str:
        """The text, or its head and tail so that it costs at most `tokens`."""
        limit = len(text)
        while limit > 16 and self.text(text) > tokens:
            limit = min(limit * 3 // 4, limit * tokens // max(self.text(text), 1))
            text = shrink(text, limit)
        return text

    def take(self, parts: Sequence[str], tokens: int) -> tuple[list[str], int]:
        """As many of the parts, from the first on, as fit in `tokens`; and how many are left out."""
        kept: list[str] = []
        for part in parts:
            tokens -= self.text(part)
            if tokens < 0:
                break
            kept.append(part)
        return kept, len(parts) - len(kept)
