"""Computed prompts of an MLX model: kept in the engine's trie, so that what prompts share is computed once.

A row begins from the longest stored beginning of its prompt. The end of what all prompts with its system message share
is computed apart and stored; the end of what a conversation keeps is cut out of the running batch when it gets there.
Snapshots lie exactly at those ends, because caches with a window or a running state cannot be trimmed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from nightschool.engine.backends.mlx_model import MLXModel
from nightschool.engine.backends.mlx_store import Caches, PrefixStore
from nightschool.engine.prefix import Entry, PrefixTrie
from nightschool.engine.reply import Reply

WORTH_KEEPING = 32
"""Shorter stretches are computed again sooner than looked up."""
CHUNK = 2048
"""Most tokens in one pass over a prompt: bounds the memory of activations."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a row begins: caches of the first `length` tokens, not to be written to, and what is still to be read.

    Of two segments the first ends where a snapshot is worth taking.
    """

    caches: Caches
    length: int
    segments: list[list[int]]


class Prefixes:
    """The snapshots of one model, under a budget of bytes."""

    def __init__(self, model: MLXModel, budget: int, disk: PrefixStore) -> None:
        """Nothing is stored yet, but for what lies on the disk."""
        self.trie: PrefixTrie[Caches] = PrefixTrie(budget)
        self._model, self._disk = model, disk
        self._pinned: dict[int, list[Entry[Caches]]] = {}

    def begin(self, reply: Reply) -> Beginning:
        """The longest known beginning of a prompt; what it shares with others is computed now."""
        prompt = reply.prompt
        entry = self.trie.longest(prompt[:-1])
        caches, length = (entry.snapshot, entry.length) if entry else (self._model.caches(), 0)
        reply.cached = length
        head = reply.boundaries[0] if reply.boundaries else 0
        if head - length >= WORTH_KEEPING:
            if (stored := self._disk.load(prompt[:head])) is not None:
                caches, reply.cached = stored, head
            else:
                caches = copy.deepcopy(caches)
                self._model.read(prompt[length:head], caches, CHUNK)
                self._disk.save(prompt[:head], caches)
            length, entry = head, self._store(prompt[:head], caches)
        self._pin(reply, entry)
        stable = reply.boundaries[-1] if reply.boundaries else 0
        cut = stable if stable - length >= WORTH_KEEPING else length
        return Beginning(caches, length, [part for part in (prompt[length:cut], prompt[cut:]) if part])

    def keep(self, reply: Reply, tokens: Sequence[int], caches: Caches) -> None:
        """Store what a running row's caches hold."""
        self._pin(reply, self._store(tokens, caches))

    def release(self, ticket: int) -> None:
        """The row has left."""
        for entry in self._pinned.pop(ticket, ()):
            self.trie.unpin(entry)

    def _store(self, tokens: Sequence[int], caches: Caches) -> Entry[Caches] | None:
        return self.trie.insert(tokens, caches, sum(cache.nbytes for cache in caches))

    def _pin(self, reply: Reply, entry: Entry[Caches] | None) -> None:
        if entry is not None:
            self.trie.pin(entry)
            self._pinned.setdefault(reply.ticket, []).append(entry)
