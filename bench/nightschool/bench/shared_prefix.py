"""32 requests that share a long system prompt: our engine against transformers' own `generate`, in one run.

Prints one JSON record: prompt tokens computed, seconds of both, their ratio, and the second batch, which computes tails
alone. Both sides get the same token ids, the same weights in float32, and decode greedily, one after the other.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from nightschool.engine.chat import Chat
from nightschool.engine.engine import Engine
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, Message, Request, Sampling

WORDS = "the build host keeps every nightly log for the release team and rotates them after review "


def requests(rows: int, system_tokens: int, new_tokens: int, engine: Engine, salt: str) -> list[Request]:
    """`rows` requests with one system prompt of about `system_tokens` tokens and short questions of their own."""
    text = f"Notes {salt}. "
    while engine.count((Message("system", text),)) < system_tokens:
        text += WORDS
    sampling = Sampling(max_tokens=new_tokens)
    return [
        Request(
            (Message("system", text), Message("user", f"{salt} question {n}: who keeps log number {n * 7}?")),
            None,
            sampling,
        )
        for n in range(rows)
    ]


def ours(engine: Engine, batch: Sequence[Request]) -> tuple[float, list[Completion]]:
    """Seconds and replies of one batch."""
    start = time.perf_counter()
    tickets = [engine.submit(request) for request in batch]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    return time.perf_counter() - start, [done[ticket] for ticket in tickets]


def theirs(spec: ModelSpec, batch: Sequence[Request]) -> float:
    """Seconds that `generate` takes for the same prompts, left-padded into one batch, as its documentation does."""
    import torch
    from transformers import AutoModelForCausalLM

    chat = Chat(spec)
    model = AutoModelForCausalLM.from_pretrained(spec.folder, dtype=torch.float32, local_files_only=True).eval()
    prompts = [list(chat.encode(request.messages).ids) for request in batch]
    longest = max(len(ids) for ids in prompts)
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    limit = batch[0].sampling.max_tokens
    start = time.perf_counter()
    with torch.inference_mode():
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=limit, do_sample=False, pad_token_id=0)
    return time.perf_counter() - start


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench shared_prefix", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--system-tokens", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--model", default=None)
    args = parser.parse_args(argv)
    from nightschool.engine import offline, select
    from nightschool.engine.models import load_models

    models = load_models(None, Path.cwd())
    offline.seal(models.hosts())
    spec, choice = select.resolve(models, args.model or models.roles.student, "transformers")
    engine = select.open_engine(spec, backend=choice.name)
    ours(engine, requests(2, 64, 4, engine, "warm"))
    batch = requests(args.rows, args.system_tokens, args.new_tokens, engine, "night")
    first, replies = ours(engine, batch)
    second, again = ours(
        engine,
        [Request((*r.messages[:1], Message("user", f"again {n}")), None, r.sampling) for n, r in enumerate(batch)],
    )
    generate = theirs(spec, batch)
    computed = sum((reply.usage.prompt_tokens or 0) - (reply.usage.cached_tokens or 0) for reply in replies)
    computed_again = sum((reply.usage.prompt_tokens or 0) - (reply.usage.cached_tokens or 0) for reply in again)
    record = {
        "schema": 1,
        "model": spec.alias,
        "rows": args.rows,
        "prompt_tokens": sum(reply.usage.prompt_tokens or 0 for reply in replies),
        "prompt_tokens_computed": computed,
        "second_batch_computed": computed_again,
        "seconds": round(first, 2),
        "second_batch_seconds": round(second, 2),
        "generate_seconds": round(generate, 2),
        "times_faster": round(generate / first, 2),
        "generated_tokens": sum(reply.usage.generated_tokens or 0 for reply in replies),
    }
    print(json.dumps(record))
    engine.close()
    return 0
