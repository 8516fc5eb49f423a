"""Grammars at work in a batch: matchers -> packed masks, one row a ticket.

A row without a grammar gets every token of the tokenizer. A row with one gets what its grammar allows next, narrowed
by its guard so that the reply closes inside `max_tokens` (`guard.py`). Text that the grammar forces is spelled as the
tokenizer spells it, since a model that must spell it otherwise writes worse after it: as a run that is read at once
(`GrammarBatch.forced`), or token by token through the masks (`Row.spell`). Thinking is a rule before the reply, with a
budget of its own. A matcher's internal error is an `EngineError`, never an end of text. Masks are packed int32, bit = 1
allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nightschool.engine import nodes
from nightschool.engine.grammar import Grammar, matcher_failed
from nightschool.engine.guard import Guard
from nightschool.engine.types import EngineError
from nightschool.engine.vocabulary import Thought, Vocabulary, pack, thinking_lark, unpack

LOOKED_AT = 256
"""Words at the front of a mask that tell whether text may be forced: the commonest tokens."""
SPARSE = 64
"""How many of them are not zero then, at most: the beginnings of one text are few tokens."""
_GOOD_ENDS = {"NotStopped", "NoExtension", "EndOfSentence"}


@dataclass(slots=True)
class Row:
    """What is known of one reply while it is made. `thought` is set until the thinking is over.

    `coming` are the tokens of forced text that its masks spell, one after the other.
    """

    matcher: Any = None
    guard: Guard | None = None
    thought: Thought | None = None
    thinking_tokens: int = 0
    coming: deque[int] = field(default_factory=deque)

    def forced(self, vocabulary: Vocabulary) -> list[int]:
        """The tokens that must come next: only where the text is forced, its spelling is the tokenizer's own, whatever
        follows, and the budget affords it; up to where a control token would be spelled."""
        if self.matcher is None or self.thought is not None or not vocabulary.tokenizer.is_canonical:
            return []
        data = self.matcher.compute_ff_bytes()
        run = vocabulary.tokenizer.tokenize_partial(data)[0] if data else []
        special = [index for index, token in enumerate(run) if not vocabulary.token_bytes[token]]
        run = list(run[: special[0]] if special else run)
        return run if self.guard is None or self.guard.affords(run) else []

    def spell(self, mask: NDArray[np.int32], vocabulary: Vocabulary) -> bool:
        """Leave the next token of forced text alone in its mask; False where no text is forced."""
        if not self.coming and np.count_nonzero(mask[:LOOKED_AT]) <= SPARSE:
            self.coming.extend(self.forced(vocabulary))
        if not self.coming:
            return False
        mask[:] = 0
        mask[self.coming[0] >> 5] = np.int32(np.uint32(1 << (self.coming[0] & 31)).view(np.int32))
        return True

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
        if self.coming and self.coming.popleft() != token:
            self.coming.clear()
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

    def fill(self, tickets: Sequence[int], *, spell: bool = False) -> NDArray[np.int32]:
        """The masks of these rows, in this order; `spell`: for an engine that does not read forced runs at once."""
        from llguidance.numpy import fill_next_token_bitmask_par

        masks = np.tile(self.vocabulary.open_row, (len(tickets), 1))
        rows = [self._rows[ticket] for ticket in tickets]
        busy = [(row.matcher, index) for index, row in enumerate(rows) if row.matcher is not None and not row.coming]
        if busy:
            fill_next_token_bitmask_par(self._executor, busy, masks)
        for row, mask in zip(rows, masks, strict=True):
            row.check()
            if not (spell and row.spell(mask, self.vocabulary)):
                row.narrow(mask)
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
        """The run of tokens that must come next, already consumed: feed them to the model as one chunk."""
        row = self._rows[ticket]
        run = row.forced(self.vocabulary)
        if run:
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


def _guard(vocabulary: Vocabulary, grammar: Grammar, max_tokens: int, thought: Thought | None) -> Guard | None:
    after = nodes.lit(thought.after.encode() if thought is not None else b"")
    if grammar.node is not None:
        return Guard(nodes.seq(after, grammar.node), vocabulary, max_tokens)
    need = grammar.limit + len(after.data)
    if max_tokens < need:
        raise ValueError(f"max_tokens is {max_tokens}, but a Lark grammar by hand needs its limit, {need}")
    return None
