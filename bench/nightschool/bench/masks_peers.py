"""The other sides of `bench masks`: mlx-lm's BatchGenerator as it is, with a logits processor a row or with none.

`LLGuidance` is what a careful user writes: a matcher and a mask a row, applied with `mx.where`. `outlines` is that library's
own processor on outlines_core; its mask is applied by a kernel for Metal, so where there is none `mx.where` does it.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from nightschool.bench.masks_setting import SHORT, Net
from nightschool.engine.grammar import Grammar
from nightschool.engine.vocabulary import Vocabulary

READ_TOGETHER = 8
Processor = Callable[[mx.array, mx.array], mx.array]


@dataclass(frozen=True, slots=True)
class Ran:
    """Seconds of the steps in which every row was decoded, and the tokens of each row."""

    seconds: list[float]
    tokens: list[list[int]]


def run(
    net: Net,
    prompts: Sequence[Sequence[int]],
    steps: int,
    sampler: Callable[[mx.array], mx.array],
    processors: Sequence[Processor] | None = None,
    stop: Sequence[int] = (),
) -> Ran:
    """Decode until every row was in `steps` steps, or one has ended."""
    from mlx_lm.generate import BatchGenerator

    mx.random.seed(0)
    rows = len(prompts)
    generator = BatchGenerator(
        net,
        stop_tokens=[[token] for token in stop] or None,
        sampler=sampler,
        completion_batch_size=rows,
        prefill_batch_size=min(READ_TOGETHER, rows),
    )
    chains = None if processors is None else [[processor] for processor in processors]
    uids = generator.insert([list(prompt) for prompt in prompts], max_tokens=[4096] * rows, logits_processors=chains)
    tokens: dict[int, list[int]] = {uid: [] for uid in uids}
    seconds: list[float] = []
    ended = False
    while len(seconds) <= steps and not ended:
        began = time.perf_counter()
        _, spoken = generator.next()
        spent = time.perf_counter() - began
        ended = any(response.finish_reason for response in spoken)
        for response in spoken:
            tokens[response.uid].append(response.token)
        if len(spoken) == rows and not ended:
            seconds.append(spent)
    generator.close()
    return Ran(seconds[1:], [tokens[uid] for uid in uids])


def only_forward(logprobs: mx.array) -> mx.array:
    """A sampler that samples nothing: tokens that depend on the pass, without a look at the vocabulary."""
    return mx.abs(logprobs[:, 0] * 1000).astype(mx.uint32)


def own_sampler(temperature: float) -> Callable[[mx.array], mx.array]:
    """mlx-lm's own."""
    from mlx_lm.sample_utils import make_sampler

    made: Callable[[mx.array], mx.array] = make_sampler(temp=temperature)
    return made


def masked(logits: mx.array, mask: np.ndarray[Any, np.dtype[np.int32]]) -> mx.array:
    """Logits (1, V) where the packed mask (1, W) allows them."""
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")[:, : logits.shape[1]]
    return mx.where(mx.array(bits.view(np.bool_)), logits, -mx.inf)


class LLGuidance:
    """One row's matcher and mask."""

    def __init__(self, vocabulary: Vocabulary, grammar: Grammar) -> None:
        """At the start of the grammar."""
        from llguidance.numpy import allocate_token_bitmask

        self._matcher = vocabulary.start(grammar.lark)
        self._mask = allocate_token_bitmask(1, vocabulary.size)
        self._begun = False

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Take the last token in, mask the next."""
        from llguidance.numpy import fill_next_token_bitmask

        if self._begun and not self._matcher.is_stopped():
            self._matcher.consume_token(tokens[-1].item())
        self._begun = True
        fill_next_token_bitmask(self._matcher, self._mask)
        return masked(logits, self._mask)


class Outlines:
    """Indices of schemas, as many as were compiled within the limit; rows share them."""

    def __init__(self, tokenizer: Path, eos: str, schemas: Sequence[dict[str, Any]], limit: float) -> None:
        """Compiles in a process of its own, which is ended when its time is up."""
        self.indices: list[Any] = []
        self.seconds: list[float] = []
        self._wanted, self._limit = len(schemas), limit
        context = multiprocessing.get_context("spawn")
        ear, mouth = context.Pipe(duplex=False)
        sources = [json.dumps(schema) for schema in schemas]
        child = context.Process(target=compile_all, args=(mouth, str(tokenizer), eos, sources), daemon=True)
        child.start()
        mouth.close()
        self._end = f"cut at {limit:g} s"
        try:
            self._hear(ear)
        except EOFError:
            self._end = "ended by an error"
        child.kill()
        child.join()
        if not mx.metal.is_available():
            import_module("outlines_core.kernels.mlx").__dict__["apply_token_bitmask"] = masked

    def told(self) -> dict[str, Any]:
        """What became of compiling."""
        done, spent = len(self.indices), round(sum(self.seconds), 1)
        note = f"outlines: {done} of {self._wanted} schemas (texts cut to {SHORT[1]} characters) compiled in {spent} s"
        if done < self._wanted:
            note += f", then {self._end}; " + ("rows share them" if done else "not measured")
        if not mx.metal.is_available():
            note += "; its Metal kernel replaced by mx.where"
        return {"compiled": done, "wanted": self._wanted, "seconds": spent, "limit": self._limit, "note": note}

    def processors(self, rows: int) -> list[Processor]:
        """A fresh processor a row."""
        from outlines.backends.outlines_core import OutlinesCoreLogitsProcessor

        return [OutlinesCoreLogitsProcessor(self.indices[row % len(self.indices)], "mlx") for row in range(rows)]

    def _hear(self, ear: Any) -> None:
        """Take in indices until all are there or the time is up; loading the tokenizer is not counted."""
        ear.recv()
        until = time.monotonic() + self._limit
        while len(self.indices) < self._wanted and ear.poll(max(0.0, until - time.monotonic())):
            seconds, index = ear.recv()
            self.seconds.append(seconds)
            self.indices.append(index)


def compile_all(mouth: Any, tokenizer: str, eos: str, schemas: Sequence[str]) -> None:
    """Say once that the vocabulary is ready, then send each index with the seconds that it took."""
    import outlines
    from outlines.backends.outlines_core import OutlinesCoreBackend
    from transformers import PreTrainedTokenizerFast

    words = PreTrainedTokenizerFast(tokenizer_file=tokenizer, eos_token=eos)
    backend = OutlinesCoreBackend(outlines.from_mlxlm(None, words))
    mouth.send(None)
    for schema in schemas:
        began = time.perf_counter()
        index = backend.get_json_schema_logits_processor(schema, "").index
        mouth.send((time.perf_counter() - began, index))
