"""What a night learns, over several seeds and beside its controls: the figures behind any claim of gain.

Each seed is a suite and a run seed of its own. Nights lie in OUT/SUITE-SEED-CONTROL and are resumed, not
repeated. Their statuses go to OUT/SUITE.jsonl, one JSON line a control to stdout. The loop does the work; this only
repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nightschool.bench.shared import Shared
from nightschool.disk.files import write_atomic
from nightschool.engine.engine import Engine
from nightschool.engine.models import Models
from nightschool.loop.crew import UNIFORM
from nightschool.loop.evolve import evolve
from nightschool.loop.nights import open_night, resolve
from nightschool.loop.progress import Silent
from nightschool.loop.report import status
from nightschool.loop.stats import paired
from nightschool.loop.workspace import Config, Workspace, create

ROLES = ("student", "maintainer", "proposer")


def night(
    root: Path, suite: str, seed: int, control: str, iterations: int, alias: str, opener: Callable[[str], Engine]
) -> dict[str, Any]:
    """One night, resumed or read back when it was run before; its status, with `suite_seed`."""
    space = Workspace(root)
    if not (root / "config.json").is_file():
        space = create(
            root, f"{suite}:{seed}", Config(suite=f"{suite}:{seed}", models=dict.fromkeys(ROLES, alias), seed=seed)
        )
    if status(space)["state"] != "finished":
        config = resolve(space, {"iterations": iterations, "control": control})
        roles = dict.fromkeys(ROLES, alias)
        if control == "random":
            roles |= {"maintainer": UNIFORM, "proposer": UNIFORM}
        with open_night(space, config, roles, opener, Silent()) as running:
            evolve(running)
    return {"suite_seed": seed, **status(space)}


def summary(records: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """By control: mean gain over seeds with its interval, lowest gain, highest baseline, replies, edits."""
    for control in dict.fromkeys(record["control"] for record in records):
        nights = [record for record in records if record["control"] == control]
        gains = [record["test"]["delta"] for record in nights]
        low, high = paired([0.0] * len(gains), gains).ci95
        yield {
            "control": control,
            "seeds": [record["suite_seed"] for record in nights],
            "gains": gains,
            "mean_gain": round(sum(gains) / len(gains), 4),
            "ci95": [round(low, 4), round(high, 4)],
            "lowest_gain": min(gains),
            "highest_first": max(record["test"]["first"] for record in nights),
            "accepted": [sum(item["accepted"] for item in record["iterations"]) for record in nights],
            "replies": {
                key: sum(record["replies"][key] for record in nights)
                for key in ("total", "valid", "retried", "degraded")
            },
            "edits": {key: sum(record["edits"][key] for record in nights) for key in nights[0]["edits"]},
            "seconds": [record["seconds"] for record in nights],
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds and controls on one loaded model."""
    parser = argparse.ArgumentParser(prog="python -m bench learning", description=__doc__.split("\n")[0])
    parser.add_argument("--suite", default="style", help="a generated suite: style or runbook")
    parser.add_argument("--seeds", default="0,1,2,3", help="suite seeds, each its own run seed")
    parser.add_argument("--controls", default="none,placebo,random", help="none, random, shuffled, placebo, nowiki")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--model", default=None, help="alias (default: the student of models.toml)")
    parser.add_argument("--backend", default=None, help="what runs the model (default: what fits this machine)")
    parser.add_argument("--at-once", type=int, default=4, help="nights side by side on the one loaded model")
    parser.add_argument("--out", type=Path, default=Path("nights"))
    args = parser.parse_args(argv)
    from nightschool.engine import offline, select
    from nightschool.engine.models import load_models

    models: Models = load_models(None, Path.cwd())
    alias = args.model or models.roles.student
    offline.seal(models.hosts())
    spec, choice = select.resolve(models, alias, args.backend)
    engine = select.open_engine(spec, backend=choice.name)
    try:
        records = _all_nights(args, alias, Shared(engine))
    finally:
        engine.close()
    write_atomic(args.out / f"{args.suite}.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    for line in summary(records):
        print(json.dumps(line), flush=True)
    return 0


def _all_nights(args: argparse.Namespace, alias: str, shared: Shared) -> list[dict[str, Any]]:
    """Every seed and control, `--at-once` of them side by side; a line on stderr as each ends."""
    wanted = [(control, seed) for control in args.controls.split(",") for seed in map(int, args.seeds.split(","))]

    def one(control: str, seed: int) -> dict[str, Any]:
        root = args.out / f"{args.suite}-{seed}-{control}"
        record = night(root, args.suite, seed, control, args.iterations, alias, _opener(shared))
        test = record["test"]
        print(f"{root.name}: test {test['first']:.3f} -> {test['final']:.3f}", file=sys.stderr, flush=True)
        return record

    with ThreadPoolExecutor(args.at_once) as pool:
        return list(pool.map(lambda pair: one(*pair), wanted))


def _opener(shared: Shared) -> Callable[[str], Engine]:
    """The one loaded model for its alias; the uniform sampler for `random`."""

    def load(name: str) -> Engine:
        if name == UNIFORM:
            from nightschool.engine.backends.uniform import load as uniform

            return uniform(shared.engine.model)
        return shared.view()

    return load
