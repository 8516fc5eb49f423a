"""vLLM's own `LLM.generate`, greedy, with its own structured outputs, each request with its schema."""

from __future__ import annotations

import sys

from peer_work import Answer, Job, are_json, serve, timed  # type: ignore[import-not-found]


def work(job: Job) -> Answer:
    """Every task; grammars are compiled within its time."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    most = max(map(len, job.prompts)) + job.gen + 8
    model = LLM(job.folder, dtype="float32", max_model_len=most, enforce_eager=True, max_num_seqs=len(job.prompts))

    def run(prompts: list[list[int]], gen: int, schemas: list[str], least: int = 0) -> tuple[float, list[object]]:
        params = [
            SamplingParams(
                max_tokens=gen,
                min_tokens=least,
                temperature=0.0,
                structured_outputs=StructuredOutputsParams(json=schemas[row]) if schemas else None,
            )
            for row in range(len(prompts))
        ]
        asked = [{"prompt_token_ids": ids} for ids in prompts]
        spent: tuple[float, list[object]] = timed(lambda: model.generate(asked, params, use_tqdm=False))
        return spent

    run(job.warm, 2, [])
    seconds, outs = run(job.prompts, job.gen, job.schemas)
    replies = [out.outputs[0] for out in outs]  # type: ignore[attr-defined]
    tokens = [len(one.token_ids) for one in replies]
    if not job.schemas:
        return Answer(seconds, sum(tokens))
    model.reset_prefix_cache()
    free, _ = run(job.prompts, max(tokens), [], max(tokens))
    return Answer(seconds, sum(tokens), free, None, are_json([one.text for one in replies]))


if __name__ == "__main__":
    sys.exit(serve(work))
