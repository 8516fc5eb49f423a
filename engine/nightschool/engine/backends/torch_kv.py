"""Keys and values of a batch.

A `Chunk` is a stretch of tokens that is stored and shared; a `Group` holds rows that continue one chunk, each with a
tail of its own in buffers that grow. Nothing is padded before or inside a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Keys and values (heads, length, size) of a stretch of tokens, per attention layer; never written to."""

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    length: int

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(part.nbytes for part in (*self.keys, *self.values))


class Group:
    """Rows with one common prefix. Slots 0..n-1 are in use; a freed slot takes over the last row."""

    def __init__(self, root: Chunk | None) -> None:
        """`root` is the common prefix, None if the rows have none."""
        self.root = root
        self.lengths: list[int] = []
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    @property
    def start(self) -> int:
        """Tokens of the common prefix."""
        return self.root.length if self.root else 0

    def add(self, chunks: Sequence[Chunk]) -> int:
        """A slot for a new row whose tail begins with these chunks."""
        slot = len(self.lengths)
        self.lengths.append(0)
        for chunk in chunks:
            for layer, (keys, values) in enumerate(zip(chunk.keys, chunk.values, strict=True)):
                self.write(layer, slot, keys, values)
            self.lengths[slot] += chunk.length
        return slot

    def remove(self, slot: int) -> int | None:
        """Free a slot; returns the slot whose row moved into it, if one did."""
        last = len(self.lengths) - 1
        length = self.lengths.pop()
        if slot == last:
            return None
        self.lengths[slot] = length
        for buffer in (*self.keys, *self.values):
            buffer[slot, :, :length] = buffer[last, :, :length]
        return last

    def chunk(self, slot: int, start: int, end: int) -> Chunk:
        """A copy of a stretch of a row's tail."""
        return Chunk(
            tuple(keys[slot, :, start:end].clone() for keys in self.keys),
            tuple(values[slot, :, start:end].clone() for values in self.values),
            end - start,
        )

    def write(self, layer: int, slot: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put new keys and values (heads, n, size) behind a row's tail; `lengths` is the caller's to move."""
        start = self.lengths[slot]
        end = start + keys.shape[1]
        self._reserve(layer, end, keys, values)
        self.keys[layer][slot, :, start:end] = keys
        self.values[layer][slot, :, start:end] = values

    def write_each(self, layer: int, at: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """One new key and value (rows, heads, size) for each row, at the positions `at` of their tails."""
        self._reserve(layer, max(self.lengths) + 1, keys[0][:, None], values[0][:, None])
        rows = torch.arange(len(self.lengths), device=at.device)
        self.keys[layer][rows, :, at] = keys
        self.values[layer][rows, :, at] = values

    def _reserve(self, layer: int, length: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Make the buffers of a layer large enough for all slots and tails of `length`."""
        if layer == len(self.keys):
            self.keys.append(keys.new_empty(0, keys.shape[0], 0, keys.shape[2]))
            self.values.append(values.new_empty(0, values.shape[0], 0, values.shape[2]))
        for buffers in (self.keys, self.values):
            old = buffers[layer]
            rows, heads, room, size = old.shape
            if rows >= len(self.lengths) and room >= length:
                continue
            rows = rows if rows >= len(self.lengths) else max(len(self.lengths), rows * 3 // 2)
            room = room if room >= length else max(length + 32, room * 3 // 2)
            buffers[layer] = old.new_zeros(rows, heads, room, size)
            buffers[layer][: old.shape[0], :, : old.shape[2]] = old
