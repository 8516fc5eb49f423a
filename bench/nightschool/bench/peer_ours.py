"""Our own side, as one peer among others, in an interpreter that has nightschool: `peer_ours.py JOB MESSAGES`.

It starts from the messages that the job's token ids were made of. Free decoding beside constrained has prompts of its own,
as long as the others: nothing of either is cached for the other.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from peer_work import Answer, Job, are_json, serve, timed  # type: ignore[import-not-found]


def work(job: Job) -> Answer:
    """Any task, through the engine of the transformers backend."""
    from nightschool.bench.loaded import ask, find, opened, run
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.types import Message

    given = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    spec = find(given["model"], given["backend"], given["models"])
    sets = ("messages", "others")
    conversations, others = ([tuple(Message(*turn) for turn in one) for one in given[name]] for name in sets)
    warm = [(Message("user", f"warm {row}"),) for row in range(len(job.warm))]

    with opened(spec, given["backend"], len(conversations)) as (engine, _):
        run(engine, [ask(turns, 2) for turns in warm])
        if not job.schemas:
            ran = run(engine, [ask(turns, job.gen) for turns in conversations])
            return Answer(ran.seconds, ran.generated)

        def constrained() -> Any:
            made = {text: Grammar.from_schema(json.loads(text)) for text in dict.fromkeys(job.schemas)}
            asked = [ask(turns, 0, made[text]) for turns, text in zip(conversations, job.schemas, strict=True)]
            return run(engine, asked)

        seconds, ran = timed(constrained)
        longest = max(one.usage.generated_tokens or 1 for one in ran.replies)
        free = run(engine, [ask(turns, longest) for turns in others])
        return Answer(seconds, ran.generated, free.seconds, None, are_json([one.text for one in ran.replies]))


if __name__ == "__main__":
    sys.exit(serve(work))
