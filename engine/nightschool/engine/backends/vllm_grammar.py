"""Masks and budgets of the replies inside vLLM, beside its scheduler, in whichever process that runs.

vLLM takes a request's Lark and has it checked by its `guidance` backend. What then follows a reply is our own row
(`constraint.py`), in the place that vLLM's structured outputs have for it: the same matcher, vocabulary, limits and guard
as on every other backend. vLLM's own would cut a reply that is longer than `max_tokens`, spell control tokens inside a
text where the tokenizer does not call them special, and know one end of text only. A row without a grammar has a mask
too where the model's vocabulary is padded.

`scheduler` is what vLLM is given as its scheduler's class; a child process finds the vocabulary by the folder that
`additional_config` names.
"""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import llguidance.torch as masks
import numpy as np
import torch
from numpy.typing import NDArray
from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar

from nightschool.engine.constraint import Row, open_row
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import EngineError
from nightschool.engine.vocabulary import Thought, Vocabulary

log = logging.getLogger(__name__)

KEY = "nightschool"
"""Our place in `extra_args` of a request and in vLLM's `additional_config`."""
ANYTHING = "start: /(?s:.*)/"
"""The grammar that vLLM is told for a row without one; its mask is the vocabulary's own."""
SCHEDULER = f"{__name__}.scheduler"
SHARED: dict[str, Vocabulary] = {}
"""Vocabularies of the models that run inside this process, by folder."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a row is opened with, where it is opened in another process."""

    grammar: Grammar | None
    max_tokens: int
    thought: Thought | None

    def open(self, vocabulary: Vocabulary) -> Row:
        """The row. Raises ValueError if not even the shortest reply fits, Problem for a bad grammar."""
        return open_row(vocabulary, self.grammar, self.max_tokens, self.thought)


class GuidedGrammar(StructuredOutputGrammar):
    """One reply's row, as vLLM's scheduler asks for it."""

    def __init__(self, row: Row, vocabulary: Vocabulary) -> None:
        self._row, self._vocabulary = row, vocabulary
        self._over = False

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """The tokens that may come next. A matcher that failed allows the end of text only."""
        row = self._row
        if row.matcher is None:
            bitmask[batch_index] = torch.from_numpy(self._vocabulary.open_row)
            return
        if not row.coming:
            masks.fill_next_token_bitmask(row.matcher, bitmask, batch_index)
        mask = _words(bitmask)[batch_index]
        if not row.spell(mask, self._vocabulary):
            row.narrow(mask)

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Whether the reply may go on with them; one that may not ends with an error."""
        row, matcher = self._row, self._row.matcher
        for token in tokens:
            self._over = token in self._vocabulary.eos
            if matcher is not None and (matcher.is_stopped() or not matcher.consume_token(token)):
                return self._over and self._sound(request_id)
            row.advance(token)
        return True

    def is_terminated(self) -> bool:
        """Whether its end of text was read."""
        return self._over

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Of no use without speculative decoding."""
        raise NotImplementedError

    def rollback(self, num_tokens: int) -> None:
        """Of no use without speculative decoding."""
        raise NotImplementedError

    def reset(self) -> None:
        """Of no use without speculative decoding."""
        raise NotImplementedError

    def _sound(self, request_id: str) -> bool:
        """Whether its matcher stopped because the grammar ends here."""
        try:
            self._row.check()
        except EngineError as error:
            log.error("%s: %s", request_id, error.what)
            return False
        return True


class Guided(StructuredOutputBackend):
    """The structured outputs of one engine."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def compile_grammar(
        self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> GuidedGrammar:
        """The grammar without its guard, until the scheduler binds the request to its row."""
        return GuidedGrammar(Row(matcher=self._vocabulary.start(grammar_spec)), self._vocabulary)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Rows of packed words for a batch."""
        return masks.allocate_token_bitmask(max_num_seqs, self._vocabulary.size)

    def destroy(self) -> None:
        """Nothing is held."""


@lru_cache(maxsize=1)
def _words(bitmask: torch.Tensor) -> NDArray[np.int32]:
    """The same memory for NumPy; vLLM has one bitmask for all its steps."""
    words: NDArray[np.int32] = bitmask.numpy()
    return words


def told(terms: Terms, row: Row, *, in_process: bool) -> dict[str, Any]:
    """What a request carries to the scheduler: its row, or what to open one with on the other side."""
    return {KEY: row if in_process else pickle.dumps(terms)}


def scheduler(**given: Any) -> Any:
    """vLLM's scheduler, with our structured outputs in it, that binds each request to its row."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    logging.getLogger("vllm.logging_utils.dump_input").disabled = True  # pages of grammars, with what they quote
    config = given["vllm_config"]
    vocabulary = _vocabulary(**config.additional_config[KEY])
    given["structured_output_manager"].backend = Guided(vocabulary)
    made = (AsyncScheduler if config.scheduler_config.async_scheduling else Scheduler)(**given)
    enqueue = made.add_request

    def add_request(request: Any) -> None:
        carried = (request.sampling_params.extra_args or {}).get(KEY)
        if carried is not None:
            row = carried if isinstance(carried, Row) else pickle.loads(carried).open(vocabulary)
            request.structured_output_request.grammar = GuidedGrammar(row, vocabulary)
        enqueue(request)

    made.add_request = add_request
    return made


def _vocabulary(folder: str, width: int, eos: list[int]) -> Vocabulary:
    if folder not in SHARED:
        SHARED[folder] = Vocabulary((Path(folder) / "tokenizer.json").read_text("utf-8"), width, eos)
    return SHARED[folder]
