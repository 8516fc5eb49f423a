"""What our vLLM backend costs beside vLLM: the same grammar-bound requests through both, by turns, on one loaded model.

`straight` is vLLM's own add_request/step with its own guidance backend, on token ids that are made beforehand; `ours`
starts from messages and ends with checked completions. All is greedy, every reply fits its budget, and no text is forced
(ours would spell it in fewer tokens), so both generate the same tokens and find the same prefixes in the cache, as both
report. What our own code takes at each step is measured apart, without the model: `own` walks all rows along their
replies, a mask and a token each, and is compared with llguidance alone; `glue` is what our engine adds to vLLM's step.

Prints one JSON record; exit code 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from nightschool.engine.types import Completion, Request

RATIO = 1.05
STEP_US = 200.0
SYSTEM = "You answer with one line about the nightly build, and you add nothing to it. "


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's run over all requests; tokens that it generated, and prompt tokens from the cache."""

    seconds: float
    tokens: int
    cached: int
    steps: int


class Sides:
    """One loaded model, and how each side asks it for the same replies."""

    def __init__(self, engine: Any, rows: int, letters: int) -> None:
        """`rows` requests (325 at most), each with a grammar of its own, of replies of `letters` letters."""
        from nightschool.engine.grammar import Grammar
        from nightschool.engine.types import Message, Request, Sampling

        self.engine, self.llm = engine, engine._core.llm
        self.manager = self.llm.engine_core.engine_core.structured_output_manager
        self.requests: list[Request] = []
        self.texts: list[str] = []
        for number, dropped in enumerate(islice(combinations("abcdefghijklmnopqrstuvwxyz", 2), rows)):
            alphabet = "".join(letter for letter in " abcdefghijklmnopqrstuvwxyz" if letter not in dropped)
            grammar = Grammar.regex(f"[{alphabet}]{{{letters}}}")
            messages = (Message("system", SYSTEM * 12), Message("user", f"What became of build {number}?"))
            self.requests.append(Request(messages, grammar, Sampling(max_tokens=grammar.limit)))

    def ours(self) -> Turn:
        """Through our engine."""
        done: dict[int, Completion] = {}
        start, steps = time.perf_counter(), 0
        tickets = [self.engine.submit(request) for request in self.requests]
        while len(done) < len(tickets):
            done.update(self.engine.step())
            steps += 1
        seconds = time.perf_counter() - start
        if not all(completion.valid for completion in done.values()):
            raise RuntimeError("a reply is not valid")
        self.texts = [done[ticket].text for ticket in tickets]
        used = [completion.usage for completion in done.values()]
        return Turn(
            seconds, sum(one.generated_tokens or 0 for one in used), sum(one.cached_tokens or 0 for one in used), steps
        )

    def straight(self) -> Turn:
        """Through vLLM itself."""
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        chat = self.engine._chat
        prompts = [chat.encode(request.messages).ids for request in self.requests]
        with self._own_backend():
            start, tokens, cached, left, steps = time.perf_counter(), 0, 0, len(self.requests), 0
            for number, (ids, request) in enumerate(zip(prompts, self.requests, strict=True)):
                assert request.grammar is not None
                params = SamplingParams(
                    max_tokens=request.grammar.limit,
                    temperature=0.0,
                    detokenize=False,
                    output_kind=RequestOutputKind.FINAL_ONLY,
                    structured_outputs=StructuredOutputsParams(grammar=request.grammar.lark),
                )
                self.llm.add_request(f"straight-{number}", tokens_input(ids), params)
            while left:
                for output in self.llm.step():
                    tokens += len(output.outputs[0].token_ids)
                    cached += output.num_cached_tokens
                    left -= 1
                steps += 1
            return Turn(time.perf_counter() - start, tokens, cached, steps)

    @contextmanager
    def _own_backend(self) -> Iterator[None]:
        """vLLM's guidance in the place of ours."""
        from vllm.v1.structured_output.backend_guidance import GuidanceBackend

        before, config = self.manager.backend, self.llm.vllm_config
        self.manager.backend = GuidanceBackend(config, self.manager.tokenizer, config.model_config.get_vocab_size())
        try:
            yield
        finally:
            self.manager.backend = before

    def own(self, repeats: int = 7) -> dict[str, float]:
        """Microseconds a step of Python: a mask and a token for every row, along the replies that `ours` got.

        By llguidance alone (`bare`), vLLM's own guidance grammar and our row; the least of some repeats by turns. The
        filling of a mask, the same for all three and much the longest, is left out, so that the rest can be seen.
        """
        import llguidance.torch as masks
        from vllm.v1.structured_output.backend_guidance import GuidanceBackend
        from vllm.v1.structured_output.backend_types import StructuredOutputOptions

        from nightschool.engine.backends.vllm_grammar import GuidedGrammar
        from nightschool.engine.constraint import open_row

        vocabulary, config = self.engine._chat.vocabulary, self.llm.vllm_config
        backend = GuidanceBackend(config, self.manager.tokenizer, config.model_config.get_vocab_size())
        grammars = [request.grammar for request in self.requests if request.grammar is not None]
        paths = [self.engine._chat.tokens.plain(text) for text in self.texts]
        bitmask = masks.allocate_token_bitmask(len(paths), vocabulary.size)
        length = min(map(len, paths))

        def ours() -> list[Any]:
            rows = [open_row(vocabulary, grammar, grammar.limit) for grammar in grammars]
            return [GuidedGrammar(row, vocabulary) for row in rows]

        def theirs() -> list[Any]:
            return [backend.compile_grammar(StructuredOutputOptions.GRAMMAR, grammar.lark) for grammar in grammars]

        def walk(rows: list[Any]) -> float:
            start = time.perf_counter()
            for place in range(length):
                for index, row in enumerate(rows):
                    row.fill_bitmask(bitmask, index)
                for path, row in zip(paths, rows, strict=True):
                    row.accept_tokens("", [path[place]])
            return (time.perf_counter() - start) / length * 1e6

        def walk_bare() -> float:
            rows = [vocabulary.start(grammar.lark) for grammar in grammars]
            start = time.perf_counter()
            for place in range(length):
                for index, row in enumerate(rows):
                    masks.fill_next_token_bitmask(row, bitmask, index)
                for path, row in zip(paths, rows, strict=True):
                    row.consume_token(path[place])
            return (time.perf_counter() - start) / length * 1e6

        with patch.object(masks, "fill_next_token_bitmask", lambda *given: None):
            turns = [(walk_bare(), walk(theirs()), walk(ours())) for _ in range(repeats)]
        bare, vllm, own = (round(min(turn[n] for turn in turns), 1) for n in range(3))
        return {"bare": bare, "vllm": vllm, "ours": own, "above_bare": round(own - bare, 1)}

    def glue(self) -> dict[str, float]:
        """Microseconds of our engine that are not vLLM's step: at a step that ends no reply, and for a reply's end."""
        inner = 0.0
        quiet: list[float] = []
        ends: list[float] = []
        step = self.engine._core.step

        def timed() -> Any:
            nonlocal inner
            start = time.perf_counter()
            outputs = step()
            inner = time.perf_counter() - start
            return outputs

        self.engine._core.step = timed
        for request in self.requests:
            self.engine.submit(request)
        left = len(self.requests)
        while left:
            start = time.perf_counter()
            done = len(self.engine.step())
            spent = time.perf_counter() - start - inner
            left -= done
            (ends if done else quiet).append(spent / max(done, 1))
        del self.engine._core.step
        return {"step": round(median(quiet) * 1e6, 1), "reply": round(median(ends) * 1e6, 1)}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--letters", type=int, default=48, help="of a reply's text")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--model", default=None)
    parser.add_argument("--context", type=int, default=2048)
    args = parser.parse_args(argv)
    from nightschool.engine import offline, select
    from nightschool.engine.models import load_models

    models = load_models(None, Path.cwd())
    offline.seal(models.hosts())
    spec, choice = select.resolve(models, args.model or models.roles.student, "vllm")
    engine: Any = select.open_engine(replace(spec, context=args.context), backend=choice.name, width=args.rows)
    sides = Sides(engine, args.rows, args.letters)
    turns: dict[str, list[Turn]] = {"ours": [], "straight": []}
    for pair in range(args.pairs + 1):
        for name in ("ours", "straight") if pair % 2 else ("straight", "ours"):
            turns[name].append(getattr(sides, name)())
    ours, straight = (turns[name][1:] for name in ("ours", "straight"))  # the first pair warms up
    ratios = [one.seconds / other.seconds for one, other in zip(ours, straight, strict=True)]
    own, glue = sides.own(), sides.glue()
    record = {
        "schema": 1,
        "model": spec.alias,
        "engine": dict(engine.facts()),
        "rows": args.rows,
        "ratio": round(median(ratios), 4),
        "ratio_target": RATIO,
        "ratios": [round(ratio, 4) for ratio in ratios],
        "seconds": {
            "ours": [round(one.seconds, 3) for one in ours],
            "straight": [round(o.seconds, 3) for o in straight],
        },
        "work": {
            "ours": [(one.tokens, one.cached, one.steps) for one in ours],
            "straight": [(one.tokens, one.cached, one.steps) for one in straight],
        },
        "same_work": all(
            replace(one, seconds=other.seconds) == other for one, other in zip(ours, straight, strict=True)
        ),
        "own_us": own,
        "glue_us": glue,
        "step_us": round(own["above_bare"] + glue["step"], 1),
        "step_us_target": STEP_US,
    }
    print(json.dumps(record))
    engine.close()
    return 0 if record["ratio"] <= RATIO and record["step_us"] <= STEP_US and record["same_work"] else 1


if __name__ == "__main__":
    sys.exit(main())
