"""Rows that are decoded together: where their keys, values and states are, and what a step computes.

A row begins from the longest stored beginning of its prompt; what is worth keeping of the rest is stored on the
way. New rows are prefilled unpadded, many in one pass where the model allows it, one by one where it has running
states. Which token comes next is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from nightschool.engine.backends.torch_attention import Plan, Span
from nightschool.engine.backends.torch_kv import Chunk, Group
from nightschool.engine.backends.torch_model import States, TorchModel, join_states, pick_states, state_bytes
from nightschool.engine.prefix import Entry, PrefixTrie
from nightschool.engine.reply import Reply

WORTH_KEEPING = 32
"""Shorter stretches are computed again sooner than looked up."""
NARROW = 4
"""Up to so many rows, a run of tokens that are known already is read in one pass."""
PASS = 2048
"""Most tokens in one prefill pass: bounds the memory of activations."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Where to go on after some tokens."""

    chunks: tuple[Chunk, ...] = ()
    states: States = ()

    @property
    def length(self) -> int:
        """Tokens that it covers."""
        return sum(chunk.length for chunk in self.chunks)


@dataclass(slots=True, eq=False)
class Row:
    """One reply and its place in the batch."""

    reply: Reply
    group: Group
    slot: int
    states: States = ()
    """Its states until it joins the batch."""
    pending: list[int] = field(default_factory=list)
    """Tokens that the model has not read yet."""
    entries: list[Entry[Snapshot]] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Tokens that the model has read."""
        return self.group.start + self.group.lengths[self.slot]


class TorchBatch:
    """The batch of one model."""

    def __init__(self, model: TorchModel, prefixes: PrefixTrie[Snapshot]) -> None:
        """An empty batch."""
        self.model = model
        self.prefixes = prefixes
        self._groups: dict[Group, list[Row]] = {}
        self._states: States = ()
        self._order: list[Row] = []
        self._narrow = 1 if model.stateful else NARROW

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of a step's logits."""
        return [row for rows in self._groups.values() for row in rows]

    def add(self, replies: Sequence[Reply]) -> tuple[list[Row], torch.Tensor]:
        """Take in new replies and read their prompts; the logits after each prompt."""
        rows = [self._place(reply) for reply in replies]
        if self.model.stateful:
            logits = torch.cat([self._read_alone(row) for row in rows])
        else:
            logits = self._read_together(rows)
            for row in rows:
                self._keep_tail(row)
        return rows, logits

    def step(self) -> tuple[list[Row], torch.Tensor]:
        """Let the model read on; the rows without pending tokens left, and the logits after their last.

        A row may have several pending tokens: a narrow batch reads them all, a wide one a token of each row.
        """
        self._arrange()
        rows = self._order
        if len(rows) <= self._narrow and any(len(row.pending) > 1 for row in rows):
            return rows, self._read_together(rows)
        ids = torch.tensor([row.pending[:1] for row in rows], device=self.model.device)
        positions = torch.tensor([[row.read] for row in rows], device=self.model.device)
        logits = self.model.forward(ids, positions, Plan(groups=list(self._groups)), self._states, [0])
        for row in rows:
            del row.pending[0]
        ready = [i for i, row in enumerate(rows) if not row.pending]
        return [rows[i] for i in ready], logits if len(ready) == len(rows) else logits[ready]

    def remove(self, row: Row) -> None:
        """Take a row out, finished or not."""
        self._unpin(row)
        members = self._groups[row.group]
        if row.group.remove(row.slot) is not None:
            members[row.slot] = members[-1]
            members[row.slot].slot = row.slot
        members.pop()
        if not members:
            del self._groups[row.group]

    def clear(self) -> None:
        """Take all rows out, and whatever a pass that failed half-way left behind."""
        for row in self.rows:
            self._unpin(row)
        self._groups, self._order, self._states = {}, [], ()

    def _place(self, reply: Reply) -> Row:
        """Find or compute the shared beginning of a prompt, and a slot behind it."""
        snapshot, entry = self._beginning(reply)
        root = snapshot.chunks[0] if snapshot.chunks else None
        group = self._group_for(root, reply.longest - snapshot.length)
        members = self._groups.setdefault(group, [])
        row = Row(reply, group, group.add(snapshot.chunks[1:]), snapshot.states)
        members.append(row)
        row.pending = reply.prompt[row.read :]
        if entry is not None:
            self._pin(row, entry)
        return row

    def _beginning(self, reply: Reply) -> tuple[Snapshot, Entry[Snapshot] | None]:
        entry = self.prefixes.longest(reply.prompt[:-1])
        snapshot = entry.snapshot if entry else Snapshot()
        reply.cached = snapshot.length
        head = reply.boundaries[0] if reply.boundaries else 0
        if head - snapshot.length >= WORTH_KEEPING:
            snapshot = self._extend(snapshot, reply.prompt[:head])
            entry = self._store(reply.prompt[:head], snapshot)
        return snapshot, entry

    def _extend(self, snapshot: Snapshot, tokens: Sequence[int]) -> Snapshot:
        """Read on from a snapshot to the end of `tokens`, outside of the batch."""
        scratch = Group(snapshot.chunks[0] if snapshot.chunks else None)
        slot = scratch.add(snapshot.chunks[1:])
        first = scratch.lengths[slot]
        states = self._own(snapshot.states)
        for start, end in _stretches(snapshot.length, len(tokens)):
            self._pass([(scratch, slot, tokens[start:end])], states, [])
        new = scratch.chunk(slot, first, scratch.lengths[slot])
        return Snapshot((*snapshot.chunks, new), states)

    def _store(self, tokens: Sequence[int], snapshot: Snapshot) -> Entry[Snapshot] | None:
        size = snapshot.chunks[-1].size + state_bytes(snapshot.states)
        return self.prefixes.insert(tokens, snapshot, size)

    def _group_for(self, root: Chunk | None, tail: int) -> Group:
        """Rows behind one root whose tails are of one order of length share buffers."""
        order = max(tail, 512).bit_length()
        for group, members in self._groups.items():
            first = members[0].reply.longest - group.start
            if group.root is root and max(first, 512).bit_length() == order:
                return group
        return Group(root)

    def _read_together(self, rows: Sequence[Row]) -> torch.Tensor:
        """Read the pending tokens of several rows in as few passes as the bound allows."""
        logits: list[torch.Tensor] = []
        tokens: list[tuple[Group, int, Sequence[int]]] = []
        ends: list[int] = []
        filled = 0
        for row in rows:
            while row.pending:
                part = row.pending[: PASS - filled]
                row.pending = row.pending[len(part) :]
                tokens.append((row.group, row.slot, part))
                filled += len(part)
                if not row.pending:
                    ends.append(filled - 1)
                if filled == PASS:
                    logits.append(self._pass(tokens, self._states, ends))
                    tokens, ends, filled = [], [], 0
        if tokens:
            logits.append(self._pass(tokens, self._states, ends))
        return torch.cat(logits)

    def _read_alone(self, row: Row) -> torch.Tensor:
        """Read one row's prompt, stopping where its states are worth a snapshot."""
        row.states = self._own(row.states)
        stable = row.reply.boundaries[-1] if row.reply.boundaries else 0
        cuts = {row.read, len(row.reply.prompt)}
        if stable - row.read >= WORTH_KEEPING:
            cuts.add(stable)
        logits = torch.empty(0)
        for first, last in zip(sorted(cuts), sorted(cuts)[1:], strict=False):
            for start, end in _stretches(first, last):
                part = row.reply.prompt[start:end]
                ends = [len(part) - 1] if end == len(row.reply.prompt) else []
                logits = self._pass([(row.group, row.slot, part)], row.states, ends)
            if last == stable:
                self._keep(row, stable, self._own(row.states))
        row.pending = []
        return logits

    def _keep_tail(self, row: Row) -> None:
        stable = row.reply.boundaries[-1] if row.reply.boundaries else 0
        if stable - sum(entry.length for entry in row.entries[-1:]) >= WORTH_KEEPING:
            self._keep(row, stable, ())

    def _keep(self, row: Row, end: int, states: States) -> None:
        """Store the first `end` tokens of a row, as a continuation of what it began from."""
        base = row.entries[-1].snapshot if row.entries else Snapshot()
        if base.length >= end or (base.chunks[0] if base.chunks else None) is not row.group.root:
            return
        chunk = row.group.chunk(row.slot, base.length - row.group.start, end - row.group.start)
        entry = self._store(row.reply.prompt[:end], Snapshot((*base.chunks, chunk), states))
        if entry is not None:
            self._pin(row, entry)

    def _pin(self, row: Row, entry: Entry[Snapshot]) -> None:
        self.prefixes.pin(entry)
        row.entries.append(entry)

    def _unpin(self, row: Row) -> None:
        for entry in row.entries:
            self.prefixes.unpin(entry)
        row.entries = []

    def _pass(
        self, tokens: Sequence[tuple[Group, int, Sequence[int]]], states: States, ends: Sequence[int]
    ) -> torch.Tensor:
        """One forward pass over stretches of rows, one behind the other; logits at the offsets `ends`."""
        spans: list[Span] = []
        ids: list[int] = []
        positions: list[int] = []
        for group, slot, part in tokens:
            spans.append(Span(group, slot, len(ids), len(ids) + len(part)))
            first = group.start + group.lengths[slot]
            positions += range(first, first + len(part))
            ids += part
        device = self.model.device
        return self.model.forward(
            torch.tensor([ids], device=device),
            torch.tensor([positions], device=device),
            Plan(spans=spans),
            states,
            ends,
        )

    def _own(self, states: States) -> States:
        """States that may be written to."""
        return pick_states(states, [0]) if states else self.model.no_states()

    def _arrange(self) -> None:
        """Bring the states into the order of the rows, where rows came or went."""
        rows = self.rows
        if rows == self._order:
            return
        if self.model.stateful:
            known = {id(row): i for i, row in enumerate(self._order)}
            parts = [pick_states(self._states, [known[id(row)]]) if id(row) in known else row.states for row in rows]
            self._states = join_states(parts)
            for row in rows:
                row.states = ()
        self._order = rows


def _stretches(start: int, end: int) -> Iterator[tuple[int, int]]:
    """A stretch in parts of at most PASS tokens."""
    for first in range(start, end, PASS):
        yield first, min(first + PASS, end)
