"""The engine contract, and `drive`: many agents on one engine at once.

An agent is a generator that yields a `Request` (and is sent its `Completion`) or a `Job` (a tool call that takes time,
and is sent its `JobResult`). Students with tools, the maintainer and the proposer so read as straight-line code, while
`drive` keeps the batch full: an agent that waits never holds up the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, Message, Request

T = TypeVar("T")


class Engine(Protocol):
    """One loaded model."""

    model: ModelSpec
    batch_invariant: bool
    """The same text whatever the batch mates (scripted engines only)."""

    def submit(self, request: Request) -> int:
        """Queue a request and return its ticket. Raises PromptTooLong, saying which part and how long."""

    def step(self) -> list[tuple[int, Completion]]:
        """Advance all rows and return those that finished. Raises EngineError: every open ticket is lost."""

    def cancel(self, ticket: int) -> None:
        """Forget a ticket; it is not returned by `step` any more. An unknown ticket is ignored."""

    def capacity(self) -> int:
        """Rows that fit in memory now."""

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that these messages make, by the model's own tokenizer and template."""

    def facts(self) -> Mapping[str, object]:
        """What computes here, for the record: backend, dtype, device, width, versions. Empty when nothing does."""

    def close(self) -> None:
        """Free the model's memory."""


@dataclass(frozen=True, slots=True)
class Job:
    """A tool call that takes time; runs in a pool of threads."""

    run: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job returned."""

    value: Any


Agent = Generator[Request | Job, Any, T]


def drive(engine: Engine, agents: Mapping[str, Agent[T]], *, workers: int = 4) -> Iterator[tuple[str, T]]:
    """Run all agents at once; yield (name, result) as each ends.

    When an agent or the engine raises, or the caller stops early, every other agent is cancelled and closed, and the
    error goes on.
    """
    waiting: dict[int, str] = {}
    jobs: dict[Future[Any], str] = {}
    done: deque[tuple[str, T]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="job")

    def advance(name: str, value: Completion | JobResult | None) -> None:
        try:
            wanted = next(agents[name]) if value is None else agents[name].send(value)
        except StopIteration as stop:
            done.append((name, stop.value))
            return
        if isinstance(wanted, Job):
            jobs[pool.submit(wanted.run)] = name
        else:
            waiting[engine.submit(wanted)] = name

    try:
        for name in agents:
            advance(name, None)
        while done or waiting or jobs:
            while done:
                yield done.popleft()
            if waiting:
                for ticket, completion in engine.step():
                    advance(waiting.pop(ticket), completion)
            ready = wait(jobs, timeout=0 if waiting or done else None, return_when=FIRST_COMPLETED).done if jobs else ()
            for future in sorted(ready, key=lambda item: jobs[item]):
                advance(jobs.pop(future), JobResult(future.result()))
    finally:
        for ticket in waiting:
            engine.cancel(ticket)
        for agent in agents.values():
            agent.close()
        pool.shutdown(wait=False, cancel_futures=True)
