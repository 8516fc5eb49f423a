"""Which part of a prompt is computed already: a trie of snapshots, under a byte budget.

A snapshot is whatever a backend needs to go on after a sequence of tokens; the trie only knows its size. Under
pressure the least recently used snapshot goes first, leaves before what they grow from: finding one counts as a use
of all that lie on its way, and a snapshot that is pinned (in use by a row) or that others extend stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(eq=False, slots=True)
class Entry(Generic[S]):
    """A stored snapshot of the first `length` tokens of some prompt."""

    length: int
    snapshot: S
    size: int
    pins: int = 0
    used: int = 0


@dataclass(eq=False, slots=True)
class _Node(Generic[S]):
    edge: tuple[int, ...] = ()
    parent: _Node[S] | None = None
    children: dict[int, _Node[S]] = field(default_factory=dict)
    entry: Entry[S] | None = None


class PrefixTrie(Generic[S]):
    """Snapshots by their tokens."""

    def __init__(self, budget: int) -> None:
        """`budget` is in bytes."""
        self.budget = budget
        self.size = 0
        self._root: _Node[S] = _Node()
        self._nodes: dict[Entry[S], _Node[S]] = {}
        self._clock = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def longest(self, tokens: Sequence[int]) -> Entry[S] | None:
        """The longest stored beginning of `tokens`."""
        self._clock += 1
        best: Entry[S] | None = None
        for node, _ in self._walk(tokens):
            if node.entry is not None:
                best = node.entry
                best.used = self._clock
        return best

    def insert(self, tokens: Sequence[int], snapshot: S, size: int) -> Entry[S] | None:
        """Store a snapshot of exactly these tokens; None if it does not fit beside what must stay."""
        known = self.longest(tokens)
        if known is not None and known.length == len(tokens):
            return known
        if known is not None:
            known.pins += 1
        room = self._make_room(size)
        if known is not None:
            known.pins -= 1
        if not room:
            return None
        entry = Entry(len(tokens), snapshot, size, used=self._clock)
        node = self._grow(tuple(tokens))
        node.entry, self._nodes[entry] = entry, node
        self.size += size
        return entry

    def pin(self, entry: Entry[S]) -> None:
        """Keep it, whatever comes, until it is unpinned as often."""
        entry.pins += 1

    def unpin(self, entry: Entry[S]) -> None:
        """Take back one `pin`."""
        if entry.pins < 1:
            raise ValueError("unpinned more often than pinned")
        entry.pins -= 1

    def shrink(self, budget: int) -> None:
        """Set a new budget and evict down to it, as far as pins allow."""
        self.budget = budget
        self._make_room(0)

    def _make_room(self, size: int) -> bool:
        """Evict until `size` more bytes fit."""
        while self.size + size > self.budget:
            free = [entry for entry, node in self._nodes.items() if not entry.pins and not node.children]
            if not free:
                return False
            self._remove(min(free, key=lambda entry: entry.used))
        return True

    def _remove(self, entry: Entry[S]) -> None:
        node = self._nodes.pop(entry)
        node.entry = None
        self.size -= entry.size
        while node.parent is not None and node.entry is None and not node.children:
            del node.parent.children[node.edge[0]]
            node = node.parent

    def _walk(self, tokens: Sequence[int]) -> Iterator[tuple[_Node[S], int]]:
        """The nodes whose whole path is a beginning of `tokens`, and the path's length, from the root down."""
        node, depth = self._root, 0
        yield node, depth
        while depth < len(tokens) and (child := node.children.get(tokens[depth])) is not None:
            end = depth + len(child.edge)
            if tuple(tokens[depth:end]) != child.edge:
                return
            node, depth = child, end
            yield node, depth

    def _grow(self, tokens: tuple[int, ...]) -> _Node[S]:
        """The node of exactly these tokens, made if it is missing."""
        *_, (node, depth) = self._walk(tokens)
        if depth == len(tokens):
            return node
        child = node.children.get(tokens[depth])
        if child is not None:
            shared = next(
                (i for i, (a, b) in enumerate(zip(child.edge, tokens[depth:], strict=False)) if a != b),
                min(len(child.edge), len(tokens) - depth),
            )
            node, depth = self._split(child, shared), depth + shared
            if depth == len(tokens):
                return node
        leaf: _Node[S] = _Node(tokens[depth:], node)
        node.children[tokens[depth]] = leaf
        return leaf

    def _split(self, child: _Node[S], at: int) -> _Node[S]:
        """Put a node into the edge that leads to `child`."""
        parent = child.parent
        assert parent is not None
        middle: _Node[S] = _Node(child.edge[:at], parent, {child.edge[at]: child})
        parent.children[child.edge[0]] = middle
        child.edge, child.parent = child.edge[at:], middle
        return middle
