"""Grammars at work in a batch: matchers -> packed masks, one row a ticket.

A row without a grammar gets every token of the tokenizer. A row with one gets what its grammar allows next, narrowed
by its guard so that the reply closes inside `max_tokens` (`guard.py`). Thinking is a rule before the reply, with a
budget of its own. A matcher's internal error is an `EngineError`, never an end of text. Masks are packed int32, bit = 1
allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nightschool.engine import nodes
from nightschool.engine.grammar import Grammar, matcher_failed
from nightschool.engine.guard import Guard
from nightschool.engine.types import EngineError
from nightschool.engine.vocabulary import Thought, Vocabulary, pack, thinking_lark, unpack

_GOOD_ENDS = {"NotStopped", "NoExtension", "EndOfSentence"}


@dataclass(slots=True)
class Row:
    """What is known of one reply while it is made. `thought` is set until the thinking is over."""

    matcher: Any = None
    guard: Guard | None = None
    thought: Thought | None = None
    thinking_tokens: int = 0

    def narrow(self, mask: NDArray[np.int32]) -> None:
        """Take out of its mask what could not close in time."""
        if self.guard is None or self.thought is not None:
            return
        if not self.guard.carefree:
            allowed = unpack(mask)
            if self.guard.narrow(allowed):
                mask[:] = pack(allowed)

    def advance(self, token: int) -> None:
        """It got this token, and its matcher has read it."""
        if self.thought is not None:
            self.thinking_tokens += 1
            if token == self.thought.close:
                self.thought = None
        elif self.guard is not None:
            self.guard.advance(token)

    def check(self) -> None:
        """Raise if its matcher failed, or stopped for any reason but the end of its grammar."""
        if self.matcher is None:
            return
        if self.matcher.is_error():
            raise matcher_failed(self.matcher)
        reason = self.matcher.stop_reason()
        if reason not in _GOOD_ENDS:
            raise EngineError(f"the grammar's matcher stopped: {reason}", "simplify the grammar and try again")


def open_row(vocabulary: Vocabulary, grammar: Grammar | None, max_tokens: int, thought: Thought | None = None) -> Row:
    """A row at its beginning. Raises ValueError if not even the shortest reply fits, Problem for a bad grammar.

    `max_tokens` counts all that follows the thinking: the text that ends it, the reply, and the end of text.
    """
    row = Row(thought=thought)
    if grammar is not None:
        row.guard = _guard(vocabulary, grammar, max_tokens, thought)
    if thought is not None:
        row.matcher = vocabulary.start(thinking_lark(grammar, thought))
    elif grammar is not None:
        row.matcher = vocabulary.start(grammar.lark)
    return row


class GrammarBatch:
    """The rows that are being decoded together, each under its own grammar or none."""

    def __init__(self, vocabulary: Vocabulary, threads: int | None = None) -> None:
        import llguidance

        self.vocabulary = vocabulary
        self._executor: Any = llguidance.LLExecutor(num_threads=threads)
        self._rows: dict[int, Row] = {}

    def add(self, ticket: int, grammar: Grammar | None, max_tokens: int, thought: Thought | None = None) -> None:
        """Begin a row; see `open_row`."""
        self._rows[ticket] = open_row(self.vocabulary, grammar, max_tokens, thought)

    def remove(self, ticket: int) -> None:
        """Forget a row; an unknown ticket is ignored."""
        self._rows.pop(ticket, None)

    def fill(self, tickets: Sequence[int]) -> NDArray[np.int32]:
        """The masks of these rows, in this order."""
        from llguidance.numpy import fill_next_token_bitmask_par

        masks = np.tile(self.vocabulary.open_row, (len(tickets), 1))
        rows = [self._rows[ticket] for ticket in tickets]
        busy = [(row.matcher, index) for index, row in enumerate(rows) if row.matcher is not None]
        if busy:
            fill_next_token_bitmask_par(self._executor, busy, masks)
        for index, row in enumerate(rows):
            row.check()
            row.narrow(masks[index])
        return masks

    def consume(self, tickets: Sequence[int], tokens: Sequence[int]) -> None:
        """Each of these rows has got its token. One after the other: a few microseconds each, less than a thread's start."""
        for ticket, token in zip(tickets, tokens, strict=True):
            row = self._rows[ticket]
            if row.matcher is not None:
                row.matcher.consume_token(int(token))
            row.check()
            row.advance(int(token))

    def forced(self, ticket: int) -> list[int]:
        """The run of tokens that must come next, already consumed: feed them to the model as one chunk.

        Only where the text is forced and its spelling is the tokenizer's own; they count in the budget.
        """
        row = self._rows[ticket]
        if row.matcher is None or row.thought is not None or not self.vocabulary.tokenizer.is_canonical:
            return []
        run = self._spelled(row.matcher.compute_ff_bytes())
        if not run or (row.guard is not None and not row.guard.affords(run)):
            return []
        row.matcher.consume_tokens(run)
        row.check()
        for token in run:
            row.advance(token)
        return run

    def finished(self, ticket: int) -> bool:
        """Whether nothing but the end of text can follow. A row without a grammar never is."""
        row = self._rows[ticket]
        return row.matcher is not None and bool(row.matcher.is_stopped())

    def thinking_tokens(self, ticket: int) -> int:
        """Tokens that the row has spent on thinking, its end included."""
        return self._rows[ticket].thinking_tokens

    def _spelled(self, data: bytes) -> list[int]:
        """The tokens of forced bytes that hold whatever follows, up to where a control token would be spelled."""
        run, _ = self.vocabulary.tokenizer.tokenize_partial(data) if data else ([], b"")
        special = [index for index, token in enumerate(run) if not self.vocabulary.token_bytes[token]]
        return list(run[: special[0]] if special else run)


def _guard(vocabulary: Vocabulary, grammar: Grammar, max_tokens: int, thought: Thought | None) -> Guard | None:
    after = nodes.lit(thought.after.encode() if thought is not None else b"")
    if grammar.node is not None:
        return Guard(nodes.seq(after, grammar.node), vocabulary, max_tokens)
    need = grammar.limit + len(after.data)
    if max_tokens < need:
        raise ValueError(f"max_tokens is {max_tokens}, but a Lark grammar by hand needs its limit, {need}")
    return None
