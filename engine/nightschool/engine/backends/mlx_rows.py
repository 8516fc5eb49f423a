"""Whose rows a batch holds: a cache that no layer uses, and that mlx-lm carries along with the others.

mlx-lm's generator moves rows about as they come and go, and tells its model and its sampler nothing of it. But whatever
it does to a row it does to the row's caches. So each row brings one cache more, `RowTags`, that holds its ticket instead
of tensors and obeys the same protocol; `TaggedModel` takes it off before the model's layers see it. Nothing of mlx-lm is
overridden, no order is guessed, and a row that got lost would be noticed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx


class RowTags:
    """The tickets of the rows of a batch, in their order."""

    nbytes = 0
    state: tuple[()] = ()

    def __init__(self, tickets: Sequence[int]) -> None:
        """One for each row."""
        self.tickets = list(tickets)

    @staticmethod
    def merge(tags: Sequence[RowTags]) -> RowTags:
        """The rows of several batches, one after the other."""
        return RowTags([ticket for tag in tags for ticket in tag.tickets])

    def extend(self, other: RowTags) -> None:
        """Another batch's rows come behind."""
        self.tickets += other.tickets

    def filter(self, keep: Sequence[int]) -> None:
        """Keep the rows at these places."""
        self.tickets = [self.tickets[place] for place in keep]

    def extract(self, place: int) -> RowTags:
        """One row."""
        return RowTags([self.tickets[place]])

    def prepare(self, **padding: Any) -> None:
        """Padding changes nothing here."""

    def finalize(self) -> None:
        """Nor does its end."""

    def empty(self) -> bool:
        """Never: a row has a ticket before it has a token."""
        return False

    def is_trimmable(self) -> bool:
        """Trimming changes nothing here."""
        return True

    def trim(self, tokens: int) -> int:
        """It changes nothing here."""
        return tokens


class TaggedModel:
    """A model that remembers whose rows it was last run on, and the logits after each."""

    def __init__(self, net: Any, vocab: int) -> None:
        """`net` is the model itself; ids from `vocab` on are padding, and get no share of the probability."""
        self._net, self._vocab = net, vocab
        self.tickets: list[int] = []
        self.logits: mx.array | None = None

    def forget(self) -> None:
        """Let go of what the last pass left behind."""
        self.tickets, self.logits = [], None

    def release(self) -> None:
        """Let go of the weights too."""
        self.forget()
        self._net = None

    def __call__(self, inputs: mx.array, cache: Sequence[Any]) -> mx.array:
        """Run the layers with their own caches; logits in float32, so that no later step rounds them."""
        *layers, tags = cache
        logits: mx.array = self._net(inputs, cache=layers).astype(mx.float32)
        logits[..., self._vocab :] = -mx.inf
        self.tickets, self.logits = tags.tickets, logits[:, -1, :]
        return logits
