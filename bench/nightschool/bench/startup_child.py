"""One fresh process of the startup bench: `python -m nightschool.bench.startup_child JSON`, one JSON line on stdout.

It imports what the backend needs, loads the model, warms it up with the shortest request (whatever is compiled at first use
is compiled here), and then asks three times for a first token: cold, with the prefix warm, and as a second turn. Times are
seconds; `began` is when the parent started it, by the clock that both share.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print."""
    given: Mapping[str, Any] = json.loads((argv or sys.argv[1:])[0])
    from nightschool.bench import loaded
    from nightschool.engine import select

    spec = loaded.find(given["model"], given["backend"], given["models"])
    for package in select.PACKAGES[select.choose_backend(spec, given["backend"]).name]:
        __import__(package)
    told: dict[str, Any] = {"import": time.time() - given["began"]}
    start = time.perf_counter()
    with loaded.opened(spec, given["backend"], 1) as (engine, model):
        told["load"], start = time.perf_counter() - start, time.perf_counter()
        loaded.run(engine, [loaded.ask(loaded.prompt(engine, 1, "warm"), 1)])
        told["compile"] = time.perf_counter() - start
        told |= _prompts(engine, given)
        told["to_first_token"] = sum(told[part] for part in ("import", "load", "compile")) + told["cold"]
        told["model"] = [model.alias, model.sha256, model.dtype, model.backend]
        told["memory"] = loaded.peak_memory()
    print(json.dumps(told))
    return 0


def _prompts(engine: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The first token of each prompt, and what of the first two was cached."""
    from nightschool.bench import loaded
    from nightschool.engine.types import Message

    system = Message("system", given["system"])
    first, other, more = (Message("user", text) for text in given["questions"])
    conversation = (system, first)
    cold = loaded.run(engine, [loaded.ask(conversation, given["gen"])])
    answer = Message("assistant", cold.replies[0].text)
    warm = loaded.run(engine, [loaded.ask((system, other), 1)])
    second = loaded.run(engine, [loaded.ask((*conversation, answer, more), 1)])
    told: dict[str, Any] = {}
    for name, ran in (("cold", cold), ("warm", warm), ("second", second)):
        usage = ran.replies[0].usage
        told[name] = ran.first
        told[f"{name}_tokens"], told[f"{name}_cached"] = usage.prompt_tokens, usage.cached_tokens
    return told


if __name__ == "__main__":
    sys.exit(main())
