"""The one sampler that all rows of an MLX batch share: called once a step with the logits of all, whatever their number.

The step's forward pass is only described, not computed, when the sampler is called. So it first sends the pass on its
way; while the device works, it reads the tokens of the step before, advances the matchers and fills the masks; then it
adds masking and drawing, one kernel for all rows, and returns without waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from nightschool.engine.backends.mlx_rows import TaggedModel
from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.reply import Reply
from nightschool.engine.types import EngineError
from nightschool.kernels.reference import NOTHING, Rows

Draw = Callable[..., tuple[mx.array, mx.array]]
"""(log probabilities (B, V), packed masks or None, Rows, vocab, normalised=True) -> ids (B,), their log probabilities."""


class _Drawn:
    """What one call drew: read from the device once, when it is needed first."""

    def __init__(self, ids: mx.array, logprobs: mx.array) -> None:
        self._arrays = ids, logprobs
        self._read: list[tuple[int, float]] = []

    def at(self, place: int) -> tuple[int, float]:
        """The token and log probability of one row."""
        if not self._read:
            ids, logprobs = (np.array(array).tolist() for array in self._arrays)
            self._read = list(zip(ids, logprobs, strict=True))
        return self._read[place]


class SharedSampler:
    """Masks and draws for all rows; tells each reply the token that it drew before."""

    def __init__(
        self, model: TaggedModel, grammars: GrammarBatch, running: Mapping[int, Reply], draw: Draw, vocab: int
    ) -> None:
        """`running` are the open replies by ticket; `vocab` is the tokenizer's size."""
        self.calls = 0
        self._model, self._grammars, self._running = model, grammars, running
        self._draw, self._vocab = draw, vocab
        self._drawn: dict[int, tuple[_Drawn, int]] = {}

    def __call__(self, logprobs: mx.array) -> mx.array:
        """The next token of each row (B,), from the log probabilities of all tokens (B, V)."""
        self.calls += 1
        tickets = self._model.tickets
        if len(tickets) != logprobs.shape[0] or not self._running.keys() >= set(tickets):
            raise EngineError(
                f"mlx-lm has {logprobs.shape[0]} rows, and they are those of {sorted(tickets)} of {sorted(self._running)}",
                "report the model and the version of mlx-lm",
            )
        mx.async_eval(logprobs)
        self._hear(tickets)
        live = [ticket for ticket in tickets if not self._running[ticket].finish]
        replies = [self._running[ticket] for ticket in tickets]
        scores = self._penalise(replies, logprobs)
        rows = Rows.of([reply.drawing for reply in replies])
        ids, chosen = self._draw(scores, self._masks(tickets, live), rows, self._vocab, normalised=True)
        drawn = _Drawn(ids, chosen)
        mx.async_eval(ids, chosen)
        self._drawn.update({ticket: (drawn, place) for place, ticket in enumerate(tickets)})
        return ids

    def forget(self, ticket: int) -> None:
        """A row has left."""
        self._drawn.pop(ticket, None)

    def _hear(self, tickets: Sequence[int]) -> None:
        """Tell each reply the token that was drawn for it, and its matcher too."""
        heard: list[tuple[int, int]] = []
        for ticket in tickets:
            reply, known = self._running[ticket], self._drawn.pop(ticket, None)
            if known is None or reply.finish:
                continue
            token, logprob = known[0].at(known[1])
            if token == NOTHING:
                raise EngineError("the model gave no token that may come next", "report the model and the request")
            reply.accept(token, logprob)
            heard.append((ticket, token))
        if not heard:
            return
        self._grammars.consume(*zip(*heard, strict=True))
        for ticket, _ in heard:
            reply = self._running[ticket]
            if reply.request.grammar is not None and self._grammars.finished(ticket):
                reply.end("stop")

    def _masks(self, tickets: Sequence[int], live: Sequence[int]) -> Any:
        """Packed masks (B, ceil(V / 32)); a reply that is over gets any token, which nobody will hear."""
        if not any(self._running[ticket].constrained for ticket in live):
            return None
        filled = self._grammars.fill(live, spell=True)
        if len(live) == len(tickets):
            return filled
        masks = np.tile(self._grammars.vocabulary.open_row, (len(tickets), 1))
        places = {ticket: place for place, ticket in enumerate(tickets)}
        masks[[places[ticket] for ticket in live]] = filled
        return masks

    def _penalise(self, replies: Sequence[Reply], logprobs: mx.array) -> mx.array:
        """Repetition penalty, for the free texts that ask for one."""
        logits = self._model.logits
        if any(reply.request.sampling.repetition_penalty != 1 for reply in replies):
            logprobs = mx.array(logprobs)
        for place, reply in enumerate(replies):
            penalty = reply.request.sampling.repetition_penalty
            if penalty == 1 or reply.request.grammar is not None or reply.thought is not None or logits is None:
                continue
            seen = mx.array(sorted({*reply.prompt, *reply.ids}))
            row = logits[place]
            values = row[seen]
            row[seen] = mx.where(values > 0, values / penalty, values * penalty)
            logprobs[place] = row - mx.logsumexp(row)
        return logprobs
