"""The work of a night: agents on the engines. A trace is on the disk as soon as it is finished, and is not made again.

A failed engine is started again, RETRIES times, and then stops the night with its reason: it is never a score. What is
run, and what comes of it, is left to the night.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from nightschool.engine.engine import Agent, drive
from nightschool.engine.types import Completion, EngineError, OutOfMemory
from nightschool.loop import traces, wiki
from nightschool.loop.crew import Crew
from nightschool.loop.journal import add_counts
from nightschool.loop.progress import Watcher
from nightschool.loop.skills import SkillSet
from nightschool.loop.student import Seat, solve
from nightschool.loop.suite import Suite, Task
from nightschool.loop.traces import Split, Trace
from nightschool.loop.workspace import Config, Workspace

T = TypeVar("T")
RETRIES = 2


class Work:
    """Runs agents for one night."""

    def __init__(self, space: Workspace, suite: Suite, config: Config, crew: Crew, watcher: Watcher) -> None:
        """Nothing runs yet."""
        self.space, self.suite, self.config, self.crew, self.watcher = space, suite, config, crew, watcher

    def rollout(
        self,
        k: int,
        split: Split,
        tasks: Sequence[Task],
        with_skills: SkillSet,
        *,
        kept: bool = False,
        attempt: int = 0,
    ) -> tuple[Trace, ...]:
        """The student on these tasks. Traces that lie on the disk stay if they came of the same skills, or are `kept`."""
        self.watcher.stage(k, split, len(tasks))
        seat = Seat(
            self.suite,
            with_skills,
            self.config.settings,
            split,
            k,
            self.config.seed,
            self.crew.model("student").alias,
            self.crew.meter("student"),
            attempt=attempt,
            engine=self.crew.facts("student"),
            wiki=wiki.load(self.space.wiki) if split == "test" and self.config.settings.test_wiki else None,
        )
        found = {task.id: self._finished(seat, task, kept=kept) for task in tasks}
        todo = {task.id: task for task in tasks if found[task.id] is None}
        if todo and kept:
            missing = ", ".join(sorted(todo))
            self.watcher.note(f"traces of iteration {k} are missing and are made again: {missing}")
        done = len(tasks) - len(todo)
        for made in self._agents("student", todo, lambda task: solve(seat, task)):
            traces.write(self.space.raw, made)
            found[made.task] = made
            done += 1
            self.watcher.tick(done, made.usage.get("generated_tokens") or 0)
        return tuple(trace for task in tasks if (trace := found[task.id]) is not None)

    def _finished(self, seat: Seat, task: Task, *, kept: bool) -> Trace | None:
        identity = traces.trace_id(seat.iteration, seat.split, task.id)
        if not traces.exists(self.space.raw, identity):
            return None
        trace = traces.read(self.space.raw, identity)
        if kept:
            return trace
        return (
            trace
            if (trace.skills_sha, trace.attempt, trace.model) == (seat.skills.sha, seat.attempt, seat.model)
            else None
        )

    def _agents(self, role: str, todo: dict[str, Task], start: Callable[[Task], Agent[Trace]]) -> Iterator[Trace]:
        for attempt in range(RETRIES + 1):
            try:
                agents = {name: start(task) for name, task in todo.items()}
                for name, trace in drive(self.crew.engine(role), agents):
                    del todo[name]
                    yield trace
                return
            except EngineError as error:
                self._retry(role, attempt, error)

    def one(self, k: int, role: str, start: Callable[[], Agent[T]]) -> T:
        """One agent of this role, to its end; each of its turns is told."""
        for attempt in range(RETRIES + 1):
            try:
                for _, result in drive(self.crew.engine(role), {role: self._heard(k, role, start())}):
                    self.watcher.tick(1, 0)
                    return result
            except EngineError as error:
                self._retry(role, attempt, error)
        raise AssertionError("an agent always ends or raises")

    def _heard(self, k: int, role: str, agent: Agent[T]) -> Agent[T]:
        """The same agent, its replies told as they come."""
        answer: Any = None
        for number in itertools.count():
            if isinstance(answer, Completion):
                self.watcher.turn(k, role, number, answer)
            try:
                wanted = agent.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = yield wanted
        raise AssertionError("count has no end")

    def _retry(self, role: str, attempt: int, error: EngineError) -> None:
        if attempt == RETRIES or (isinstance(error, OutOfMemory) and attempt):
            raise error
        self.watcher.note(f"the engine failed and is started again: {error.what}")
        self.crew.restart(role)


def by_task(done: Sequence[Trace]) -> dict[str, float]:
    """The scores of a run, by task."""
    return {trace.task: trace.score for trace in done}


def summary(done: Sequence[Trace]) -> dict[str, Any]:
    """What the journal keeps of a run: score, cut answers, grammar-bound replies, tokens."""
    answers = {"total": len(done), "cut": sum(trace.finish == "length" for trace in done)}
    return {
        "score": traces.mean(tuple(done)),
        "answers": answers,
        "replies": add_counts(*(trace.replies for trace in done)),
        "usage": add_counts(*(trace.usage for trace in done)),
    }
