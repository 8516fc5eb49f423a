"""The trie of snapshots: longest beginnings, budget, pins, and what goes first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from nightschool.engine.prefix import Entry, PrefixTrie

prompts = st.lists(st.integers(0, 2), max_size=7).map(tuple)


@given(stored=st.lists(prompts, max_size=12), wanted=prompts)
def test_the_longest_stored_beginning_is_found(stored: list[tuple[int, ...]], wanted: tuple[int, ...]) -> None:
    trie: PrefixTrie[tuple[int, ...]] = PrefixTrie(1000)
    for tokens in stored:
        entry = trie.insert(tokens, tokens, 1)
        assert entry is not None and entry.length == len(tokens)
    fitting = [tokens for tokens in stored if wanted[: len(tokens)] == tokens]
    found = trie.longest(wanted)
    assert (found.snapshot if found else None) == max(fitting, key=len, default=None)
    assert len(trie) == trie.size == len(set(stored))


def test_the_least_recently_used_leaf_goes_first() -> None:
    trie: PrefixTrie[str] = PrefixTrie(4)
    for tokens in ([1], [1, 2], [1, 3], [4]):
        trie.insert(tokens, str(tokens), 1)
    assert trie.longest([1, 2, 9]) is not None
    trie.insert([5], "new", 1)
    assert trie.longest([1, 3]) is not None and trie.longest([1, 3]).length == 1  # type: ignore[union-attr]
    trie.insert([6], "new", 1)
    assert trie.longest([4]) is None
    assert trie.longest([1, 2]).length == 2  # type: ignore[union-attr]


def test_what_others_extend_or_hold_stays() -> None:
    trie: PrefixTrie[str] = PrefixTrie(3)
    base = trie.insert([1], "base", 1)
    leaf = trie.insert([1, 2], "leaf", 1)
    assert base is not None and leaf is not None
    trie.pin(leaf)
    assert trie.insert([7], "x", 1) is not None
    assert trie.insert([8], "y", 1) is not None
    assert trie.longest([7]) is None
    assert trie.longest([1, 2]) is leaf
    assert trie.insert([9], "too large", 3) is None
    trie.unpin(leaf)
    with pytest.raises(ValueError, match="unpinned"):
        trie.unpin(leaf)
    trie.shrink(0)
    assert len(trie) == 0 and trie.longest([1, 2]) is None


def test_storing_twice_keeps_the_first() -> None:
    trie: PrefixTrie[str] = PrefixTrie(10)
    first = trie.insert([1, 2], "first", 2)
    assert trie.insert([1, 2], "second", 2) is first
    assert trie.size == 2


class Machine(RuleBasedStateMachine):
    """The trie beside a plain dictionary that knows what may have been evicted."""

    entries: Bundle[Entry[tuple[int, ...]]] = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.trie: PrefixTrie[tuple[int, ...]] = PrefixTrie(12)
        self.stored: dict[tuple[int, ...], Entry[tuple[int, ...]]] = {}
        self.pinned: list[tuple[int, ...]] = []

    @rule(tokens=prompts, size=st.integers(0, 5))
    def insert(self, tokens: tuple[int, ...], size: int) -> None:
        entry = self.trie.insert(tokens, tokens, size)
        if entry is not None:
            assert entry.snapshot == tokens
            self.stored[tokens] = entry

    @rule(tokens=prompts)
    def pin(self, tokens: tuple[int, ...]) -> None:
        entry = self.trie.longest(tokens)
        if entry is not None:
            self.trie.pin(entry)
            self.pinned.append(entry.snapshot)

    @precondition(lambda self: self.pinned)
    @rule()
    def unpin(self) -> None:
        tokens = self.pinned.pop()
        self.trie.unpin(self.stored[tokens])

    @rule(tokens=prompts)
    def find(self, tokens: tuple[int, ...]) -> None:
        entry = self.trie.longest(tokens)
        if entry is not None:
            assert tokens[: entry.length] == entry.snapshot == self.stored[entry.snapshot].snapshot

    @invariant()
    def within_budget(self) -> None:
        assert self.trie.size <= self.trie.budget

    @invariant()
    def pins_hold(self) -> None:
        for tokens in self.pinned:
            entry = self.trie.longest(tokens)
            assert entry is self.stored[tokens]


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
