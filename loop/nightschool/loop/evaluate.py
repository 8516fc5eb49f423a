"""Scoring one split with given skills, outside any night: nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from nightschool.disk.errors import Problem, nearest
from nightschool.engine.engine import Engine, drive
from nightschool.loop import skills, traces
from nightschool.loop.meter import Meter
from nightschool.loop.student import Seat, refuse_long, solve
from nightschool.loop.suite import load_suite
from nightschool.loop.workspace import Config, Workspace

SPLITS = get_args(traces.Split)[:3]


def evaluate(
    space: Workspace,
    config: Config,
    engine: Engine,
    split: str,
    where: Path | None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Score `split` with the skills in the folder `where` (None: no skills); `progress` is told of every task."""
    if split not in SPLITS:
        raise Problem(f"unknown split {split!r}", nearest(split, SPLITS))
    if where is not None and not where.is_dir():
        raise Problem(f"{where} is not a folder of skills", "give a folder with NAME/SKILL.md in it, or `none`")
    suite = load_suite(space.suite)
    chosen = skills.SkillSet() if where is None else skills.load(where)
    tasks = {"train": suite.train, "val": suite.val, "test": suite.test}[split]
    seat = Seat(
        suite,
        chosen,
        config.settings,
        split,  # type: ignore[arg-type]
        0,
        config.seed,
        engine.model.alias,
        Meter(engine.count, engine.model.context, engine.model.sampling, engine.model.thinking is not None),
    )
    refuse_long(suite, chosen, tasks, seat.meter, think=config.settings.think, how=config.settings.inject)
    done: dict[str, traces.Trace] = {}
    progress(0, len(tasks))
    for name, trace in drive(engine, {task.id: solve(seat, task) for task in tasks}):
        done[name] = trace
        progress(len(done), len(tasks))
    return {
        "schema": 1,
        "split": split,
        "tasks": len(tasks),
        "skills": list(chosen),
        "model": engine.model.alias,
        "score": traces.mean(tuple(done[task.id] for task in tasks)),
        "scores": {task.id: done[task.id].score for task in tasks},
        "failed": [
            {"task": task.id, "score": done[task.id].score, "reason": done[task.id].reason}
            for task in tasks
            if not done[task.id].passed
        ],
        "injected": round(sum(trace.usage["injected_tokens"] or 0 for trace in done.values()) / len(tasks), 1),
        "cut": sum(trace.finish == "length" for trace in done.values()),
    }
