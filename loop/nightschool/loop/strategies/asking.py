"""Asking a model under a grammar: a reply that cannot be used is retried with the reason, a bounded number of times."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Completion, Message, Request, Sampling
from nightschool.loop.journal import add_counts
from nightschool.loop.meter import Meter

T = TypeVar("T")
ATTEMPTS = 3
RETRY_TOKENS = 240
"""What a retry adds to the prompt, at most: the refused reply, shortened, and the reason. Callers leave room for it."""


class Unusable(Exception):
    """Why a well-formed reply cannot be used; the model is told and asked again."""


@dataclass(slots=True)
class Tally:
    """Counts of grammar-bound replies and of tokens, as the journal keeps them."""

    replies: dict[str, int] = field(default_factory=lambda: {"total": 0, "valid": 0, "retried": 0, "degraded": 0})
    usage: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Why replies went back, in their order."""

    def add(self, completion: Completion) -> None:
        """Count one reply, and those that a server gave before it in vain."""
        self.replies["total"] += 1 + completion.refused
        self.replies["valid"] += completion.valid
        self.replies["retried"] += completion.refused
        self.usage = add_counts(self.usage, asdict(completion.usage))


def ask(
    tally: Tally,
    messages: Sequence[Message],
    grammar: Grammar,
    sampling: Callable[[int], Sampling],
    use: Callable[[Any], T],
    meter: Meter,
) -> Generator[Request, Completion, tuple[T, str] | None]:
    """Ask until `use` takes the parsed reply; (its result, the reply's text), or None after ATTEMPTS.

    `sampling` maps the attempt to its sampling (another seed each time); `use` raises Unusable with the reason.
    """
    asked = tuple(messages)
    for attempt in range(ATTEMPTS):
        completion = yield Request(asked, grammar, sampling(attempt))
        tally.add(completion)
        try:
            if not completion.valid:
                raise Unusable("it was cut off before its end")
            return use(json.loads(completion.text)), completion.text
        except Unusable as reason:
            tally.refused.append(str(reason))
            tally.replies["retried" if attempt + 1 < ATTEMPTS else "degraded"] += 1
            asked = (
                *messages,
                Message("assistant", meter.fit(completion.text, RETRY_TOKENS // 2)),
                Message("user", meter.fit(f"This reply could not be used: {reason}. Reply again.", RETRY_TOKENS // 2)),
            )
    return None
