"""How far two backends agree: the share of a suite's questions that they answer alike, greedily and without skills.

`python -m bench agree --backends transformers,vllm --suite runbook:3`. Each backend runs in a process of its own, of the
interpreter that `--python` gives it, since backends may want versions of a library that exclude each other. The model
must have been pulled. One JSON record: the share, what each scored, and every answer that differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TARGET = 0.95


def answers(backend: str, suite_name: str, splits: Sequence[str], alias: str | None) -> dict[str, Any]:
    """Answers and scores by task, with what computed them."""
    from nightschool.engine import offline, select
    from nightschool.engine.engine import drive
    from nightschool.engine.models import load_models
    from nightschool.loop.meter import Meter
    from nightschool.loop.settings import EvolveSettings
    from nightschool.loop.skills import SkillSet
    from nightschool.loop.student import Seat, solve
    from nightschool.loop.suite import materialise

    models = load_models(None, Path.cwd())
    offline.seal(models.hosts())
    spec, choice = select.resolve(models, alias or models.roles.student, backend)
    engine = select.open_engine(spec, backend=choice.name)
    meter = Meter(engine.count, spec.context, spec.sampling, spec.thinking is not None)
    with tempfile.TemporaryDirectory() as folder:
        suite = materialise(suite_name, Path(folder) / "suite")
        given: dict[str, Any] = {}
        for split in splits:
            seat = Seat(suite, SkillSet(), EvolveSettings(), split, 0, 0, spec.alias, meter)  # type: ignore[arg-type]
            given |= dict(drive(engine, {task.id: solve(seat, task) for task in getattr(suite, split)}))
    record = {
        "engine": dict(engine.facts()),
        "answers": {name: trace.answer for name, trace in given.items()},
        "score": sum(trace.score for trace in given.values()) / len(given),
    }
    engine.close()
    return record


def asked(python: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What a process of another interpreter answers."""
    command = [python, "-m", "nightschool.bench.agree", *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    record: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return record


def compare(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Which answers are the same."""
    names = sorted(one["answers"])
    different = [name for name in names if one["answers"][name] != other["answers"][name]]
    return {
        "tasks": len(names),
        "equal": round(1 - len(different) / len(names), 4),
        "target": TARGET,
        "scores": [one["score"], other["score"]],
        "engines": [one["engine"], other["engine"]],
        "different": {name: [one["answers"][name], other["answers"][name]] for name in different},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Ask both, print JSON; exit code 1 below the target."""
    parser = argparse.ArgumentParser(prog="python -m bench agree", description=__doc__.split("\n")[0])
    parser.add_argument("--backends", default="transformers,vllm")
    parser.add_argument("--python", default=sys.executable, help="an interpreter for both, or ONE,OTHER")
    parser.add_argument("--suite", default="runbook:1")
    parser.add_argument("--splits", default="val", help="val, or val,train,test for more questions")
    parser.add_argument("--model", default=None)
    parser.add_argument("--alone", action="store_true", help="answer with one backend, here")
    args = parser.parse_args(argv)
    if args.alone:
        print(json.dumps(answers(args.backends, args.suite, args.splits.split(","), args.model)))
        return 0
    backends = args.backends.split(",")
    pythons = (args.python.split(",") * 2)[: len(backends)]
    rest = ["--alone", "--suite", args.suite, "--splits", args.splits, *(["--model", args.model] if args.model else [])]
    one, other = (asked(python, ["--backends", name, *rest]) for name, python in zip(backends, pythons, strict=True))
    record = {"schema": 1, "suite": args.suite, "splits": args.splits, "backends": backends, **compare(one, other)}
    print(json.dumps(record, ensure_ascii=False))
    return 0 if record["equal"] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
