"""The peer of grammars: outlines' own generator over a transformers model, with its own default backend.

One schema serves a whole batch; different ones it must take one by one. A compile that lasts longer than the limit is cut,
and this process with it.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from peer_generate import generated, loaded  # type: ignore[import-not-found]
from peer_work import Answer, Cannot, Job, are_json, serve, timed  # type: ignore[import-not-found]


def work(job: Job) -> Answer:
    """One batch, or a call for each schema; then free decoding of as many tokens."""
    if not job.schemas:
        raise Cannot("free text is transformers' own generate there")
    import outlines
    from transformers import AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(job.folder, local_files_only=True), loaded(job.folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.padding_side = "left"
    bound = outlines.from_transformers(model, tokenizer)
    generated(model, job.warm, 2)
    one = len(set(job.schemas)) == 1
    asked = [tokenizer.decode(ids) for ids in job.prompts]
    groups = [(job.schemas[0], asked)] if one else [*zip(job.schemas, [[text] for text in asked], strict=True)]
    compiling, spent, texts = 0.0, 0.0, list[str]()
    for schema, prompts in groups:
        signal.setitimer(signal.ITIMER_REAL, job.limit)  # ends this process: no library lets itself be interrupted
        seconds, generator = timed(lambda schema=schema: outlines.Generator(bound, outlines.json_schema(schema)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        compiling += seconds
        seconds, out = timed(
            lambda generator=generator, prompts=prompts: generator.batch(prompts, max_new_tokens=job.gen)
        )
        spent += seconds
        texts += out
    lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) + 1 for text in texts]
    free = _free(model, job, lengths, one=one)
    return Answer(spent + compiling, sum(lengths), free, compiling, are_json(texts))


def _free(model: Any, job: Job, lengths: list[int], *, one: bool) -> float | None:
    """Free decoding of as many steps, in one batch as it was; None where the batch was none."""
    if not one:
        return None
    return float(generated(model, job.prompts, max(lengths), least=max(lengths))[0])


if __name__ == "__main__":
    sys.exit(serve(work))
