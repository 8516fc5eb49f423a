"""The guard: a reply always closes inside its token budget.

While more tokens are left than the worst ending needs, the guard does nothing. Nearer the end it follows the reply
through its language, and takes out of each mask the tokens after which the reply could no longer close in time. One
token always stays: the next of a plan, which spells a shortest closing with ordinary tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from nightschool.engine.nodes import EMPTY, NOTHING, Alt, Chars, Node, Repeat, Seq
from nightschool.engine.vocabulary import Flags, Vocabulary, read

MOST_TRIED = 2000
"""Tokens tried one by one at a step; beyond, the lowest ids (the commonest tokens) stand for all."""
MOST_PLANS = 50_000
"""Spellings remembered for a reply before they are forgotten."""


class Guard:
    """The budget of one reply: `left` counts the tokens that may still come, the end of text included."""

    def __init__(self, language: Node, vocabulary: Vocabulary, budget: int) -> None:
        self.left = budget
        self._ample = budget > language.longest  # a token is a byte at least
        self._vocabulary = vocabulary
        self._state = language
        self._unread: list[int] = []
        self._plans: dict[int, tuple[Node, tuple[int, ...]]] = {}
        self._costs: dict[int, tuple[Node, dict[int, int]]] = {}
        self._plan: tuple[int, ...] | None = None
        if budget <= language.shortest and budget <= len(self._closing(language)):
            need = len(self._closing(language)) + 1
            raise ValueError(f"max_tokens is {budget}, but the shortest reply takes {need} tokens")

    @property
    def carefree(self) -> bool:
        """Whether the reply can still close in time whatever token comes next: there is nothing to narrow."""
        return self._carefree(1)

    def advance(self, token: int) -> None:
        """A token was read."""
        self.left -= 1
        self._unread.append(token)

    def affords(self, tokens: Iterable[int]) -> bool:
        """Whether these tokens may come next, all of them, and the reply still close."""
        run = list(tokens)
        if self._carefree(len(run)):
            return True
        self._catch_up()
        after = read(self._state, b"".join(self._vocabulary.token_bytes[token] for token in run))
        return after is not NOTHING and len(self._closing(after)) + 1 <= self.left - len(run)

    def narrow(self, allowed: Flags) -> bool:
        """Take out of `allowed` what could not close in time; returns whether anything had to be looked at."""
        if self._carefree(1):
            return False
        self._catch_up()
        if self._carefree(1):
            return False
        keep = self._in_time(allowed, self.left - 2)
        if self._plan:
            keep[self._plan[0]] = True
        if self._state.shortest == 0:
            keep[list(self._vocabulary.eos)] = True
        if (allowed & keep).any():
            allowed &= keep
        return True

    def _carefree(self, coming: int) -> bool:
        """Whether no choice of so many tokens can spoil the ending."""
        return self._ample or self.left - coming > self._state.worst

    def _catch_up(self) -> None:
        """Read what came since the last look, and keep the plan if the reply went along it."""
        for token in self._unread:
            self._state = read(self._state, self._vocabulary.token_bytes[token])
            self._plan = self._plan[1:] if self._plan and self._plan[0] == token else None
        self._unread.clear()
        if len(self._plans) > MOST_PLANS:
            self._plans.clear()
        fresh = self._closing(self._state)
        if self._plan is None or len(fresh) <= len(self._plan):
            self._plan = fresh

    def _in_time(self, allowed: Flags, budget: int) -> Flags:
        """The allowed tokens after which at most `budget` tokens close the reply."""
        loop, rest = _loop(self._state)
        keep = np.zeros_like(allowed)
        if loop is None:
            costs: dict[int, int] = {}
            others = allowed
        else:
            inside = self._vocabulary.inside(loop.part)
            cost = len(self._closing(loop.part)) * max(loop.low - 1, 0) + len(self._closing(rest))
            if cost <= budget:
                keep |= inside.whole
            if cost + loop.part.longest <= budget:
                keep |= inside.partial
            costs = self._costs.setdefault(id(rest), (rest, {}))[1] if loop.low == 0 else {}
            others = allowed & ~inside.whole & ~inside.partial
        for token in np.flatnonzero(others)[:MOST_TRIED].tolist():
            if token not in costs:
                costs[token] = self._cost(token)
            keep[token] = costs[token] <= budget
        return keep

    def _cost(self, token: int) -> int:
        """Tokens that close the reply after this one."""
        data = self._vocabulary.token_bytes[token]
        after = read(self._state, data) if data else NOTHING
        return self.left if after is NOTHING else len(self._closing(after))

    def _closing(self, node: Node) -> tuple[int, ...]:
        """Tokens that spell a shortest closing."""
        known = self._plans.get(id(node))
        if known is None:
            known = self._plans[id(node)] = (node, self._spell(node))
        return known[1]

    def _spell(self, node: Node) -> tuple[int, ...]:
        """A repetition is spelled apart from what follows, so that reading on inside it never costs more."""
        if isinstance(node, Alt):
            return min(map(self._closing, node.options), key=len)
        tokens: list[int] = []
        data = b""
        for part in _spine(node):
            if isinstance(part, Repeat):
                tokens += [*self._vocabulary.spell(data), *self._closing(part.part) * part.low]
                data = b""
            else:
                data += part.closing()
        return (*tokens, *self._vocabulary.spell(data))


def _spine(node: Node) -> Iterator[Node]:
    """The parts of a sequence."""
    while isinstance(node, Seq):
        yield node.head
        node = node.tail
    yield node


def _loop(state: Node) -> tuple[Repeat | None, Node]:
    """The repetition of characters that a reply is in, if it is in one, and what follows it."""
    head, rest = (state.head, state.tail) if isinstance(state, Seq) else (state, EMPTY)
    if not isinstance(head, Repeat):
        return None, NOTHING
    options = head.part.options if isinstance(head.part, Alt) else (head.part,)
    return (head, rest) if any(isinstance(option, Chars) for option in options) else (None, NOTHING)
