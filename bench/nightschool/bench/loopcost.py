"""What the loop itself costs: nights whose engine answers at once, at several numbers of tasks, pages and iterations.

The time of our own code is the processor's, which other people's work on the machine stretches least, without the engine's
calls (submit, step and count: the scripted engine checks every reply against its grammar) and without fsync. What fsync
makes us wait is told apart, on the clock. `rollout` is a student's task from
its prompt to its trace on the disk; `iteration` is everything else between two outcomes: state, study, proposal, gate,
bookkeeping. Warm-up: the first iteration of each night is left out. The job is `made_job`'s.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nightschool.bench.result import Measure, Record, record, this_machine

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.types import Completion, Message, Request

HELP = "what the loop itself costs, with an engine that answers at once"
ROLLOUT_MS, ITERATION_MS = 2.0, 50.0
"""What our own code may take at 1,000 tasks and 500 pages."""
_SPLITS = ("train", "val", "test", "edited", "confirm", "standing")


@dataclass(frozen=True, slots=True)
class Settings:
    """The largest job; each number is also tried at a tenth, the others as they are, unless `growth` is off."""

    tasks: int = 1000
    pages: int = 500
    iterations: int = 6
    growth: bool = True


@dataclass(slots=True)
class Clock:
    """Seconds so far that are not our own code's: of the processor, save for `fsync`, which waits for the disk."""

    engine: float = 0.0
    fsync: float = 0.0
    aside: float = 0.0
    """What the processor did for fsync."""
    start: float = field(default_factory=time.process_time)

    def reading(self) -> tuple[float, float, float]:
        """Our own seconds, those of the engine, and those of fsync."""
        return time.process_time() - self.start - self.engine - self.aside, self.engine, self.fsync


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage took, in milliseconds: our own, the engine's, fsync's. `iteration` stages are all but rollouts."""

    name: str
    k: int
    units: int
    own: float
    engine: float
    fsync: float


def measure(settings: Settings, tell: Callable[[str], None] = lambda line: None) -> Record:
    """Run the nights, the largest first; a record with `rollout`, `iteration`, their fsync, and how each grows."""
    machine, measures = this_machine(), []
    sizes = [(settings.tasks, settings.pages, settings.iterations)]
    if settings.growth:
        tasks, pages, iterations = sizes[0]
        sizes += [(max(tasks // 10, 10), pages, iterations), (tasks, pages // 10, iterations)]
        sizes += [(max(tasks // 10, 10), pages // 10, iterations * few) for few in (1, 8)]
    found: dict[tuple[int, int, int], list[Stage]] = {}
    for size in dict.fromkeys(sizes):
        tell("{} tasks, {} pages, {} iterations".format(*size))
        found[size] = night(*size)
        measures += _of(found[size], dict(zip(("tasks", "pages", "iterations"), size, strict=True)))
    if settings.growth:
        measures += _growth(settings, found)
    return record("loop", measures, settings=asdict(settings), machine=machine, notes=_notes(measures, settings))


def night(tasks: int, pages: int, iterations: int) -> list[Stage]:
    """One whole night of a made-up job; its stages in their order."""
    from nightschool.bench.made_job import ROLES, made_job, people
    from nightschool.loop.evolve import evolve
    from nightschool.loop.nights import open_night, resolve

    with made_job(tasks, pages, iterations) as space, _timed_fsync(clock := Clock()):
        opener, watch = people(), Watch(clock)
        config, roles = resolve(space, {}), {role: role for role in ROLES}
        with open_night(space, config, roles, lambda role: Timed(opener(role), clock), watch) as running:
            evolve(running)
    return watch.stages


class Watch:
    """Reads the clock when stages begin and end (a Watcher of the loop)."""

    def __init__(self, clock: Clock) -> None:
        """Nothing has begun."""
        self.clock, self.stages = clock, list[Stage]()
        self._mark = clock.reading()
        self._aside = [0.0, 0.0, 0.0]
        self._units, self._name = 0, ""

    def begin(self, events: Sequence[Mapping[str, Any]]) -> None:
        """The night begins."""

    def stage(self, k: int, name: str, total: int) -> None:
        """Rollouts begin: what came before belongs to the iteration."""
        if name in _SPLITS:
            self._add(self._taken())
            self._name, self._units = name, total

    def tick(self, done: int, tokens: int) -> None:
        """Nothing."""

    def event(self, record: Mapping[str, Any]) -> None:
        """Rollouts are over, or an iteration is."""
        kind, k = str(record["event"]), int(record["k"])
        if kind == self._name:
            self.stages.append(Stage(kind, k, self._units, *self._taken()))
            self._name = ""
        elif kind in ("baseline", "settled", "end"):
            self._add(self._taken())
            if kind == "settled":
                self.stages.append(Stage("iteration", k, 1, *self._aside))
            self._aside = [0.0, 0.0, 0.0]

    def note(self, text: str) -> None:
        """Nothing."""

    def _taken(self) -> tuple[float, float, float]:
        """Milliseconds since the last look."""
        now, before = self.clock.reading(), self._mark
        self._mark = now
        own, engine, fsync = ((new - old) * 1e3 for new, old in zip(now, before, strict=True))
        return own, engine, fsync

    def _add(self, taken: Sequence[float]) -> None:
        self._aside = [have + more for have, more in zip(self._aside, taken, strict=True)]


class Timed:
    """An engine whose calls are counted as its own time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """Wrap a loaded engine."""
        self._engine, self._clock = engine, clock
        self.model, self.batch_invariant = engine.model, engine.batch_invariant

    @contextmanager
    def _counted(self) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self._clock.engine += time.process_time() - start

    def submit(self, request: Request) -> int:
        """The engine's."""
        with self._counted():
            return self._engine.submit(request)

    def step(self) -> list[tuple[int, Completion]]:
        """The engine's."""
        with self._counted():
            return self._engine.step()

    def count(self, messages: Sequence[Message]) -> int:
        """The engine's."""
        with self._counted():
            return self._engine.count(messages)

    def cancel(self, ticket: int) -> None:
        """The engine's."""
        self._engine.cancel(ticket)

    def capacity(self) -> int:
        """The engine's."""
        return self._engine.capacity()

    def facts(self) -> Mapping[str, object]:
        """The engine's."""
        return self._engine.facts()

    def close(self) -> None:
        """The engine's."""
        self._engine.close()


@contextmanager
def _timed_fsync(clock: Clock) -> Iterator[None]:
    """Within the block every fsync of this process is counted apart."""
    plain = os.fsync

    def counted(fd: Any) -> None:
        start, busy = time.perf_counter(), time.process_time()
        try:
            plain(fd)
        finally:
            clock.fsync += time.perf_counter() - start
            clock.aside += time.process_time() - busy

    os.fsync = counted
    try:
        yield
    finally:
        os.fsync = plain


def _of(stages: Sequence[Stage], params: Mapping[str, int]) -> list[Measure]:
    """The figures of one night; the warm-up iteration is left out when there is another."""
    settled = [stage.k for stage in stages if stage.name == "iteration"]
    warm = settled[0] if len(settled) > 1 else -1
    rollouts = [stage for stage in stages if stage.name in ("train", "val") and stage.k > warm]
    rounds = [stage for stage in stages if stage.name == "iteration" and stage.k > warm]
    made = []
    for name, of in (("rollout", rollouts), ("iteration", rounds)):
        for part, title in (("own", name), ("fsync", f"{name} fsync"), ("engine", f"{name} engine")):
            samples = tuple(getattr(stage, part) / max(stage.units, 1) for stage in of)
            made.append(Measure(title, "ms", samples, params=dict(params)))
    return made


def _growth(settings: Settings, found: Mapping[tuple[int, int, int], list[Stage]]) -> list[Measure]:
    """The exponent with which each figure grows: 1 is linear, 0 is flat."""
    tasks, pages, iterations = settings.tasks, settings.pages, settings.iterations
    few = max(tasks // 10, 10)
    pairs = {
        "tasks": ((few, pages, iterations), (tasks, pages, iterations), tasks / few),
        "pages": ((tasks, pages // 10, iterations), (tasks, pages, iterations), pages / max(pages // 10, 1)),
        "iterations": ((few, pages // 10, iterations), (few, pages // 10, iterations * 8), 8.0),
    }
    made = []
    for by, (small, large, times) in pairs.items():
        for name, at in (("rollout", 0), ("iteration", 3)):
            low, high = (_last(_of(found[size], {})[at]) for size in (small, large))
            exponent = math.log(high / low) / math.log(times) if low > 0 and high > 0 and times > 1 else None
            samples = () if exponent is None else (exponent,)
            made.append(Measure(f"{name} growth", "exponent", samples, params={"by": by}))
    return made


def _last(one: Measure) -> float:
    """The median of the newest few samples: a night grows while it runs."""
    return sorted(one.samples[-4:])[len(one.samples[-4:]) // 2] if one.samples else 0.0


def _notes(measures: Sequence[Measure], settings: Settings) -> list[str]:
    size = {"tasks": settings.tasks, "pages": settings.pages}
    notes = ["own time: without the engine's calls and without fsync; growth compares a tenth with the whole"]
    for name, most in (("rollout", ROLLOUT_MS), ("iteration", ITERATION_MS)):
        one = next(one for one in measures if one.name == name and size.items() <= dict(one.params).items())
        if one.median is not None and (settings.tasks, settings.pages) == (1000, 500):
            notes.append(f"{name}: {one.median:.2f} ms, {'within' if one.median <= most else 'above'} {most:g} ms")
    return notes
