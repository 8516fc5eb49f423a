"""The peer that everybody has: transformers' own `generate`, greedy, left-padded into one batch as documented."""

from __future__ import annotations

import sys
from typing import Any

from peer_work import Answer, Cannot, Job, serve, timed  # type: ignore[import-not-found]


def loaded(folder: str) -> Any:
    """The model in float32, from its folder and nowhere else."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()


def generated(model: Any, prompts: list[list[int]], gen: int, *, least: int = 0) -> tuple[float, int]:
    """Seconds, and tokens that were generated (up to the end of each text)."""
    import torch

    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    ends = model.generation_config.eos_token_id
    ends = {ends} if isinstance(ends, int) else set(ends or ())

    def call() -> Any:
        with torch.inference_mode():
            how = {"min_new_tokens": least} if least else {}
            return model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=gen, do_sample=False, pad_token_id=0, **how
            )

    seconds, out = timed(call)
    rows = [row[longest:].tolist() for row in out]
    return seconds, sum(next((at + 1 for at, token in enumerate(row) if token in ends), len(row)) for row in rows)


def work(job: Job) -> Answer:
    """Free text is all that `generate` has by itself."""
    if job.schemas:
        raise Cannot("generate has no grammar of its own")
    model = loaded(job.folder)
    generated(model, job.warm, 2)
    seconds, tokens = generated(model, job.prompts, job.gen)
    return Answer(seconds, tokens)


if __name__ == "__main__":
    sys.exit(serve(work))
