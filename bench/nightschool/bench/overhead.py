"""What our vLLM backend costs beside vLLM: the same grammar-bound requests through both, by turns, on one loaded model.

`straight` is vLLM's own add_request/step with its own guidance backend, on token ids that are made beforehand; `ours`
starts from messages and ends with checked completions. All is greedy and every reply fits its budget, so both generate
the same tokens; the prefix cache is emptied before each turn. A last turn of ours under cProfile says what our Python code
takes at each step; `glue` is the same without a profiler, of the engine alone: its step less vLLM's.

Prints one JSON record; exit code 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

RATIO = 1.05
STEP_US = 200.0
SYSTEM = "You answer with one JSON object about the nightly build, and you add nothing to it. "


class Sides:
    """One loaded model, and how each side asks it for the same replies."""

    def __init__(self, engine: Any, rows: int, letters: int) -> None:
        """`rows` requests, each with a grammar of its own, of replies with texts of up to `letters` letters."""
        from nightschool.engine import terms
        from nightschool.engine.grammar import Grammar
        from nightschool.engine.types import Message, Request, Sampling

        self.engine, self.llm = engine, engine._core.llm
        self.manager = self.llm.engine_core.engine_core.structured_output_manager
        self.requests = []
        for number in range(rows):
            grammar = Grammar.build(
                terms.obj({"id": terms.choice([f"n{number}"]), "log": terms.matching("[a-z ]+", letters)})
            )
            messages = (Message("system", SYSTEM * 3), Message("user", f"What became of build {number}?"))
            self.requests.append(Request(messages, grammar, Sampling(max_tokens=grammar.limit)))

    def ours(self) -> tuple[float, int, int]:
        """Seconds, tokens and steps through our engine."""
        start, done, steps = time.perf_counter(), {}, 0
        for request in self.requests:
            self.engine.submit(request)
        while len(done) < len(self.requests):
            done.update(self.engine.step())
            steps += 1
        seconds = time.perf_counter() - start
        assert all(completion.valid for completion in done.values())
        return seconds, sum(completion.usage.generated_tokens or 0 for completion in done.values()), steps

    def straight(self) -> tuple[float, int, int]:
        """Seconds, tokens and steps through vLLM itself."""
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        chat = self.engine._chat
        prompts = [chat.encode(request.messages).ids for request in self.requests]
        with self._own_backend():
            start, tokens, left, steps = time.perf_counter(), 0, len(self.requests), 0
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
                    left -= 1
                steps += 1
            return time.perf_counter() - start, tokens, steps

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

    def glue(self) -> float:
        """Microseconds a step of our engine that are not vLLM's own step."""
        inner, step = 0.0, self.engine._core.step

        def timed() -> Any:
            nonlocal inner
            start = time.perf_counter()
            outputs = step()
            inner += time.perf_counter() - start
            return outputs

        self.engine._core.step = timed
        for request in self.requests:
            self.engine.submit(request)
        start, left, steps = time.perf_counter(), len(self.requests), 0
        while left:
            left -= len(self.engine.step())
            steps += 1
        total = time.perf_counter() - start
        del self.engine._core.step
        return (total - inner) / steps * 1e6

    def profiled(self) -> dict[str, Any]:
        """Microseconds a step in our own functions, the submissions apart, by cProfile (whose own cost is in them)."""
        profile, tickets = cProfile.Profile(), [self.engine.submit(request) for request in self.requests]
        steps, left = 0, len(tickets)
        profile.enable()
        while left:
            left -= len(self.engine.step())
            steps += 1
        profile.disable()
        own = {
            f"{Path(file).name}:{name}": (own_time, calls)
            for (file, _, name), (calls, _, own_time, _, _) in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
            if "/nightschool/" in file
        }
        most = sorted(own, key=lambda name: -own[name][0])[:8]
        return {
            "step_us": round(sum(spent for spent, _ in own.values()) / steps * 1e6, 1),
            "calls_a_step": round(sum(calls for _, calls in own.values()) / steps),
            "most": {name: round(own[name][0] / steps * 1e6, 1) for name in most},
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--letters", type=int, default=40, help="of the longest reply's text")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--model", default=None)
    parser.add_argument("--context", type=int, default=2048)
    args = parser.parse_args(argv)
    from dataclasses import replace

    from nightschool.engine import offline, select
    from nightschool.engine.models import load_models

    models = load_models(None, Path.cwd())
    offline.seal(models.hosts())
    spec, choice = select.resolve(models, args.model or models.roles.student, "vllm")
    engine: Any = select.open_engine(replace(spec, context=args.context), backend=choice.name, width=args.rows)
    sides = Sides(engine, args.rows, args.letters)
    turns: dict[str, list[tuple[float, int, int]]] = {"ours": [], "straight": []}
    for pair in range(args.pairs + 1):
        for name in ("ours", "straight") if pair % 2 else ("straight", "ours"):
            sides.llm.reset_prefix_cache()
            turns[name].append(getattr(sides, name)())
    ours, straight = (turns[name][1:] for name in ("ours", "straight"))  # the first pair warms up
    ratios = [one[0] / other[0] for one, other in zip(ours, straight, strict=True)]
    record = {
        "schema": 1,
        "model": spec.alias,
        "engine": dict(engine.facts()),
        "rows": args.rows,
        "pairs": args.pairs,
        "ratio": round(median(ratios), 4),
        "ratio_target": RATIO,
        "ratios": [round(ratio, 4) for ratio in ratios],
        "seconds": {
            name: [round(turn[0], 3) for turn in made] for name, made in (("ours", ours), ("straight", straight))
        },
        "tokens": {"ours": ours[0][1], "straight": straight[0][1]},
        "steps": {"ours": ours[0][2], "straight": straight[0][2]},
        "profile": sides.profiled(),
        "glue_us": round(sides.glue(), 1),
        "step_us_target": STEP_US,
    }
    print(json.dumps(record))
    engine.close()
    return 0 if record["ratio"] <= RATIO and record["profile"]["step_us"] <= STEP_US else 1


if __name__ == "__main__":
    sys.exit(main())
