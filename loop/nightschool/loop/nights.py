"""Opening a night: the suite, the strategy, the engines and the journal that belong together, and the rules of resuming."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nightschool.disk import files
from nightschool.disk.errors import Problem
from nightschool.disk.jsonl import AppendLog
from nightschool.disk.locks import Lock
from nightschool.engine.engine import Engine
from nightschool.engine.models import ModelSpec
from nightschool.loop import skills, wiki
from nightschool.loop.crew import Crew
from nightschool.loop.gate import make_gate
from nightschool.loop.hidden import Hidden
from nightschool.loop.journal import Event, Journal, best_scores
from nightschool.loop.night import Night
from nightschool.loop.progress import Watcher
from nightschool.loop.strategies.base import Strategy
from nightschool.loop.strategies.controls import Placebo
from nightschool.loop.strategies.wikiskill.strategy import WikiSkill
from nightschool.loop.student import refuse_long
from nightschool.loop.suite import Suite, load_suite, shuffled
from nightschool.loop.workspace import Config, Workspace

SWEPT = ("suite", "skills", "candidate", "wiki", "raw", "memory")


def strategy_for(control: str) -> Strategy:
    """The strategy of a control; none and `random` (which changes the engine) run WikiSkill itself."""
    return Placebo() if control == "placebo" else WikiSkill(wiki=control != "nowiki")


def suite_for(space: Workspace, config: Config) -> Suite:
    """The workspace's suite, its train answers permuted for `--control shuffled`."""
    suite = load_suite(space.suite)
    return replace(suite, train=shuffled(suite.train, config.seed)) if config.control == "shuffled" else suite


def resolve(space: Workspace, flags: Mapping[str, Any]) -> Config:
    """config.json with the flags of this call; a flag that conflicts with an unfinished night is refused by its name."""
    standing, unfinished = space.config(), Journal(space.journal).unfinished
    if not unfinished:  # a control is asked for anew each night; settings stay
        standing = replace(standing.with_table(load_suite(space.suite).settings), control="none")
    wanted = standing.changed(**flags)
    differing = standing.conflicts(wanted)
    if differing and unfinished:
        raise Problem(
            f"the unfinished night runs with another {', '.join(differing)}",
            "leave the flag out to go on with it, or finish that night first",
        )
    return wanted


def identity(suite: Suite, config: Config, student: ModelSpec) -> dict[str, Any]:
    """What a val score depends on besides the skills; when it changes, a new baseline is run."""
    return {
        "suite": suite.sha,
        "model": student.fingerprint,
        "dtype": student.dtype,
        "backend": student.backend,
        "template": files.sha256_text(student.template),
        "sampling": dict(student.sampling),
        "settings": config.settings.student(),
        "seed": config.seed,
    }


@contextmanager
def open_night(
    space: Workspace,
    config: Config,
    roles: Mapping[str, str],
    opener: Callable[[str], Engine],
    watcher: Watcher,
    *,
    together: Callable[[str, str], bool] = lambda a, b: True,
) -> Iterator[Night]:
    """Take the workspace's lock, sweep what a killed night left, and take up or begin a night."""
    with Lock(space.lock):
        files.sweep(space.root, only=SWEPT)
        suite, journal = suite_for(space, config), Journal(space.journal)
        gate = make_gate(config.settings.gate, student_temperature=config.settings.student_temperature)
        crew = Crew(roles, opener, together=together)
        try:
            _begin(space, suite, config, journal, crew, watcher)
            watcher.begin(journal.night())
            yield Night(space, suite, config, journal, crew, strategy_for(config.control), gate, watcher)
        finally:
            crew.close()


def _begin(space: Workspace, suite: Suite, config: Config, journal: Journal, crew: Crew, watcher: Watcher) -> None:
    """Resume the unfinished night, or journal the start of the next."""
    marks = identity(suite, config, crew.model("student"))
    if journal.unfinished:
        started = journal.night()[0]
        now, then = {**marks, "roles": crew.roles}, {**started["identity"], "roles": started["roles"]}
        changed = [key for key, value in now.items() if then.get(key) != value]
        if changed:
            raise Problem(
                f"{', '.join(changed)} changed since this night began",
                "undo the change to go on with it, or remove journal.jsonl to begin anew",
            )
        AppendLog(space.raw / "resumes.jsonl").append(
            {"schema": 1, "k": started["k"], "at": len(journal.events), "time": round(time.time(), 3)}
        )
        watcher.note(f"resuming at iteration {max(event['k'] for event in journal.night())}")
        return
    _refuse_mixed_controls(config.control, journal)
    _refuse_leaks(space, suite)
    standing, think = skills.load(space.skills), config.settings.think
    refuse_long(suite, standing, suite.tasks, crew.meter("student"), think=think, how=config.settings.inject)
    space.save(replace(config, measured=space.config().measured))
    first = _next_iteration(space, journal)
    journal.append(
        "night",
        first,
        identity=marks,
        skills=standing.sha,
        iterations=config.settings.iterations,
        roles=dict(crew.roles),
        control=config.control,
        gate=config.settings.gate,
        carried=_carried(space, journal, marks),
    )


def _refuse_mixed_controls(control: str, journal: Journal) -> None:
    """What a control writes into the wiki is never taken back, so it has a workspace of its own (nowiki writes no page)."""
    others = sorted({str(event["control"]) for event in journal.events if event["event"] == "night"} - {control})
    if others and not {control, *others} <= {"none", "nowiki"}:
        raise Problem(
            f"a night with control {control} would mix its knowledge with that of control {others[0]}",
            "make a workspace for it: nightschool new DIR --suite ...",
        )


def _refuse_leaks(space: Workspace, suite: Suite) -> None:
    """A val or test question that skills or pages already tell of (a task that was moved from train) measures nothing."""
    hidden = Hidden(suite)
    for path in (*space.skills.glob("*/SKILL.md"), *(space.wiki / "patterns").glob("*.md")):
        if found := hidden.told(files.read_text(path)):
            raise Problem(
                f"{path} tells of the {found[0]} task {found[1].id!r}, which must stay unseen",
                "move the task back to train, or remove it from that file",
            )


def _carried(space: Workspace, journal: Journal, marks: Mapping[str, Any]) -> dict[str, float] | None:
    """The val scores to beat of the last night, when nothing that it depends on has changed."""
    night: list[Event] = journal.night()
    if not night or night[0]["identity"] != marks or night[-1]["event"] != "end":
        return None
    return best_scores(night) if night[-1]["skills"] == skills.load(space.skills).sha else None


def _next_iteration(space: Workspace, journal: Journal) -> int:
    """Numbers go on even without the journal of older nights (git does not keep it): traces and log entries bear them."""
    made = [int(path.name[5:]) for path in space.raw.glob("iter-*") if re.fullmatch(r"[0-9]{3,9}", path.name[5:])]
    return max(journal.last_iteration(), wiki.last_iteration(space.wiki), *made) + 1
