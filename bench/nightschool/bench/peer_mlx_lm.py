"""mlx-lm's own batch_generate, greedy; it takes no grammar for a batch."""

from __future__ import annotations

import sys

from peer_work import Answer, Cannot, Job, serve, timed  # type: ignore[import-not-found]


def work(job: Job) -> Answer:
    """Free text alone."""
    if job.schemas:
        raise Cannot("batch_generate takes no grammar")
    from mlx_lm import batch_generate, load

    model, tokenizer = load(job.folder)[:2]
    batch_generate(model, tokenizer, job.warm, max_tokens=2)
    seconds, out = timed(lambda: batch_generate(model, tokenizer, job.prompts, max_tokens=job.gen))
    return Answer(seconds, int(out.stats.generation_tokens))


if __name__ == "__main__":
    sys.exit(serve(work))
