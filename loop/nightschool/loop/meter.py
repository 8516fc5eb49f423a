"""One role's model as the loop sees it: what a text costs, how much of it fits, how its replies are drawn.

Counts are the engine's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nightschool.engine.types import Message, Sampling
from nightschool.loop.excerpts import shrink

Count = Callable[[Sequence[Message]], int]


@dataclass(frozen=True, slots=True)
class Meter:
    """Counts tokens for one model with a context of `context` tokens; `sampling` holds its entry's defaults."""

    count: Count
    context: int
    sampling: Mapping[str, float | int] = field(default_factory=dict)

    def draw(self, *, max_tokens: int, temperature: float, seed: int, stop: tuple[str, ...] = ()) -> Sampling:
        """How a reply is drawn: greedy, or with the model's own top_p and top_k."""
        noisy = temperature > 0
        return Sampling(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=float(self.sampling.get("top_p", 1.0)) if noisy else 1.0,
            top_k=int(self.sampling.get("top_k", 0)) if noisy else 0,
            repetition_penalty=float(self.sampling.get("repetition_penalty", 1.0)),
            stop=stop,
            seed=seed,
        )

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
