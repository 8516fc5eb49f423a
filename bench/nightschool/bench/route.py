"""How long the router takes, by the size of the tree: `python -m bench route`.

A tree of made-up pages is written to a temporary folder: words are drawn by Zipf's law from a made-up vocabulary, triggers
have keywords of one and two words. Timed are the first load (every page is read, and the cache written), a load from the
cache, a route after it, and the whole process of `nightschool sek context` that answers one prompt. No tokenizer is used:
counting is no part of routing.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

from nightschool.sek.router import Router
from nightschool.sek.routing import Routing, Trigger, rendered
from nightschool.sek.terms import Terms
from nightschool.sek.tree import Tree

SIZES = ((500, 100), (2_500, 500), (10_000, 2_000))
WORDS, PAGE_WORDS, PROMPT_WORDS = 30_000, 180, 14
SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "je",
    "ki",
    "lo",
    "mu",
    "na",
    "pe",
    "qui",
    "ro",
    "su",
    "ta",
    "ve",
    "wi",
    "xo",
    "zu",
]


@dataclass(frozen=True, slots=True)
class Timed:
    """One size of tree; times in milliseconds."""

    pages: int
    triggers: int
    first_load: float
    load: float
    route_median: float
    route_p99: float
    route_worst: float
    context_process_median: float
    cache_mb: float


class Counts:
    """Four bytes are a token: the bench needs no model."""

    name = "bench"

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(text) // 4


def main(argv: Sequence[str] | None = None) -> int:
    """Time every size and print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench route", description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=int, default=400, help="routes a size (default: 400)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    rows = []
    for pages, triggers in SIZES:
        with tempfile.TemporaryDirectory(prefix="nightschool-") as folder:
            rows.append(measure(Path(folder), pages, triggers, args.prompts, args.seed))
            print(f"{pages} pages: done", file=sys.stderr, flush=True)
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if args.json:
        print(json.dumps({"schema": 1, "machine": machine, "sizes": [asdict(row) for row in rows]}))
        return 0
    print(f"{machine}; milliseconds, {args.prompts} prompts a size")
    print(
        f"{'pages':>7} {'triggers':>8} {'first load':>10} {'load':>7} {'route':>7} {'p99':>7} {'worst':>7} "
        f"{'context':>8} {'MB':>5}"
    )
    for row in rows:
        print(
            f"{row.pages:>7} {row.triggers:>8} {row.first_load:>10.0f} {row.load:>7.0f} {row.route_median:>7.2f} "
            f"{row.route_p99:>7.2f} {row.route_worst:>7.2f} {row.context_process_median:>8.0f} {row.cache_mb:>5.1f}"
        )
    return 0


def measure(root: Path, pages: int, triggers: int, prompts: int, seed: int) -> Timed:
    """One tree, made, loaded and asked."""
    draw = Draw(seed)
    grow(root, pages, triggers, draw)
    tree = Tree(root)
    began = time.perf_counter()
    Router.load(tree, Counts())
    first = time.perf_counter() - began
    index = Terms.load(tree)
    Router.over(tree, index).index.save(tree, Counts())
    loads = []
    for _ in range(3):
        began = time.perf_counter()
        router = Router.load(tree, Counts())
        loads.append(time.perf_counter() - began)
    router.route(draw.text(PROMPT_WORDS))  # imports and stemmers
    times = []
    for _ in range(prompts):
        text = draw.text(PROMPT_WORDS)
        began = time.perf_counter()
        router.route(text)
        times.append(time.perf_counter() - began)
    times.sort()
    milli = [1000 * value for value in times]
    whole = statistics.median(context_process(root, draw.text(PROMPT_WORDS), n) for n in range(5))
    size = (root / "memory/terms.json").stat().st_size / 1e6
    return Timed(
        pages, triggers, 1000 * first, 1000 * statistics.median(loads), statistics.median(milli),
        milli[int(len(milli) * 0.99)], milli[-1], 1000 * whole, size,
    )  # fmt: skip


def context_process(root: Path, prompt: str, number: int) -> float:
    """Seconds of one whole hook process."""
    told = {"session_id": f"bench-{number}", "cwd": str(root), "hook_event_name": "UserPromptSubmit", "prompt": prompt}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "nightschool.cli", "sek", "context"],
        input=json.dumps(told),
        text=True,
        capture_output=True,
        check=False,
    )
    return time.perf_counter() - began


class Draw:
    """Made-up words, the common ones often."""

    def __init__(self, seed: int) -> None:
        """A vocabulary of its own for each seed."""
        self.random = random.Random(seed)
        self.words = sorted(
            {"".join(self.random.choices(SYLLABLES, k=self.random.randint(2, 4))) for _ in range(WORDS)}
        )
        self.random.shuffle(self.words)
        self.weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))

    def text(self, count: int) -> str:
        """So many words."""
        return " ".join(self.random.choices(self.words, cum_weights=self.weights, k=count))


def grow(root: Path, pages: int, triggers: int, draw: Draw) -> None:
    """Write the tree."""
    paths = [f"wiki/{('rules', 'references', 'architecture', 'workflows')[n % 4]}/page-{n:05}.md" for n in range(pages)]
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"# {draw.text(4)}\n\n{draw.text(PAGE_WORDS)}\n", "utf-8")
    made = [
        Trigger(f"t{n}", (draw.text(1), draw.text(2), draw.random.choice(draw.words)), (draw.random.choice(paths),))
        for n in range(triggers)
    ]
    (root / "wiki/_routing.md").write_text(rendered(Routing(tuple(made))), "utf-8")
    (root / "wiki/_index.md").write_text("# Index\n", "utf-8")
    (root / "AGENTS.md").write_text("# Me\n", "utf-8")
    (root / "memory").mkdir()


if __name__ == "__main__":
    sys.exit(main())
