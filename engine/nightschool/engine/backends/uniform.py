"""An engine without a model: every reply is drawn uniformly, token by token, from what its grammar allows.

It shows what the rules of the loop do by themselves (`--control random`), and how far replies can go wrong within
them. A request without a grammar gets an empty text. The noise is that of the kernels: (seed, position, token id).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.grammar import accepts
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, EngineError, Finish, Message, PromptTooLong, Request, Usage
from nightschool.engine.vocabulary import Vocabulary
from nightschool.kernels.reference import NOTHING, Rows, sample

WIDTH = 32


@dataclass(slots=True)
class _Row:
    request: Request
    prompt_tokens: int
    started: float
    tokens: list[int] = field(default_factory=list)
    forced: int = 0


class UniformEngine:
    """Samples under the mask, and looks at nothing else."""

    batch_invariant = True

    def __init__(self, model: ModelSpec, vocabulary: Vocabulary | None = None, *, width: int = WIDTH) -> None:
        self.model = model
        self._vocabulary = vocabulary or Vocabulary.of_bytes()
        self._batch = GrammarBatch(self._vocabulary)
        self._rows: dict[int, _Row] = {}
        self._width = width
        self._next = 0

    def submit(self, request: Request) -> int:
        """Queue a request and return its ticket."""
        prompt = self.count(request.messages)
        whole = prompt + request.sampling.max_tokens
        if whole > self.model.context:
            raise PromptTooLong(
                f"the prompt takes {prompt} tokens and its reply {request.sampling.max_tokens}, "
                f"but the context holds {self.model.context}",
                "shorten the prompt, or give the model a larger context",
            )
        ticket, self._next = self._next, self._next + 1
        if request.grammar is not None:
            self._batch.add(ticket, request.grammar, request.sampling.max_tokens)
        self._rows[ticket] = _Row(request, prompt, perf_counter())
        return ticket

    def step(self) -> list[tuple[int, Completion]]:
        """One token for every row of the batch; those that end are returned."""
        tickets = list(self._rows)[: self._width]
        ended = [ticket for ticket in tickets if not self._goes_on(ticket)]
        running = [ticket for ticket in tickets if ticket not in ended]
        if running:
            tokens = self._draw(running)
            self._batch.consume(running, tokens)
            for ticket, token in zip(running, tokens, strict=True):
                self._rows[ticket].tokens.append(token)
                if token in self._vocabulary.eos or self._spent(ticket):
                    ended.append(ticket)
        return [(ticket, self._finish(ticket)) for ticket in tickets if ticket in ended]

    def cancel(self, ticket: int) -> None:
        """Forget a ticket."""
        self._rows.pop(ticket, None)
        self._batch.remove(ticket)

    def capacity(self) -> int:
        """Rows drawn together."""
        return self._width

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the contents; there is no template."""
        return sum(len(self._vocabulary.spell(message.content.encode())) for message in messages)

    def facts(self) -> dict[str, object]:
        """No model computes here."""
        return {}

    def close(self) -> None:
        """Forget everything."""
        for ticket in list(self._rows):
            self.cancel(ticket)

    def _goes_on(self, ticket: int) -> bool:
        """Take the forced run of a row; whether there is anything left to draw."""
        row = self._rows[ticket]
        if row.request.grammar is None:
            return False
        run = self._batch.forced(ticket)
        row.tokens += run
        row.forced += len(run)
        return not self._batch.finished(ticket) and not self._spent(ticket)

    def _spent(self, ticket: int) -> bool:
        row = self._rows[ticket]
        return len(row.tokens) >= row.request.sampling.max_tokens

    def _draw(self, tickets: Sequence[int]) -> list[int]:
        rows = [self._rows[ticket] for ticket in tickets]
        how = Rows.of([(1.0, 0, 1.0, row.request.sampling.seed, len(row.tokens)) for row in rows])
        level = np.zeros((len(rows), self._vocabulary.size), np.float32)
        ids = sample(level, self._batch.fill(tickets), how, self._vocabulary.real).ids
        if NOTHING in ids:
            raise EngineError("a grammar allows no token at all", "simplify the grammar and try again")
        return [int(token) for token in ids]

    def _finish(self, ticket: int) -> Completion:
        row, stopped = self._rows[ticket], True
        grammar = row.request.grammar
        if grammar is not None:
            stopped = self._batch.finished(ticket)
        text = self._vocabulary.decode(row.tokens)
        finish: Finish = "stop" if stopped else "length"
        seconds = perf_counter() - row.started
        self.cancel(ticket)
        return Completion(
            text,
            finish,
            Usage(row.prompt_tokens, 0, len(row.tokens), row.forced, 0),
            valid=stopped and (grammar is None or accepts(grammar, text)),
            seconds=seconds,
            first_token_seconds=seconds,
        )


def load(spec: ModelSpec, *, width: int | None = None, say: Callable[[str], None] | None = None) -> UniformEngine:
    """The engine for a model's place, with a vocabulary of bytes; it has nothing to say."""
    return UniformEngine(spec, width=width or WIDTH)
