"""The engine of the openai backend: many requests at once on one server, each in a thread that waits for its answer.

The server batches and computes; what a reply may be is judged here. Texts are the server's own draws: with the same seeds
they need not come again. `first_token_seconds` and `logprob` are not asked for and stay 0; answers are not streamed.
`EngineError` is a server that failed for good; what had come before it is given out first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter

from nightschool.engine.backends import openai_probe
from nightschool.engine.backends.openai_count import counter_for
from nightschool.engine.backends.openai_line import Ended, Line
from nightschool.engine.backends.openai_options import Options, endpoint, place, read_options
from nightschool.engine.backends.openai_pool import Pool
from nightschool.engine.backends.openai_server import look
from nightschool.engine.backends.openai_talk import Talk
from nightschool.engine.backends.openai_wire import Wire
from nightschool.engine.intake import WIDTH
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, EngineError, Message, Request

log = logging.getLogger(__name__)

STEP_SECONDS = 0.2
"""The longest that a step waits for an answer: between two steps a night can be stopped."""


def open_server(spec: ModelSpec, width: int | None = None, say: Callable[[str], None] | None = None) -> OpenAIEngine:
    """Meet the server of a model, and find out how it takes grammars."""
    options, say = read_options(spec), say or log.info
    talk = meet(spec, options)
    found = openai_probe.choose(talk, options, say)
    for doubt in (miscounted(talk, found), undrawn(talk)):
        if doubt is not None:
            say(f"{spec.alias}: {doubt}")
    return OpenAIEngine(talk, width or options.width or WIDTH)


def meet(spec: ModelSpec, options: Options) -> Talk:
    """The server, its model and its tokens; grammars are not tried yet. The spec names the model from now on."""
    wire = Wire(spec, options)
    served = look(wire, spec, options)
    spec = replace(spec, options={**spec.options, "model": served.model})
    counter = counter_for(spec, options, wire, served)
    return Talk(spec, wire, served, counter, chat=endpoint(spec, options) == "chat")


def miscounted(talk: Talk, found: openai_probe.Found) -> str | None:
    """What is wrong if prompts are counted otherwise than the server does; None if nothing is, or it does not tell."""
    counted = talk.counter.count(openai_probe.ASKED)
    if found.prompt_tokens in (None, counted):
        return None
    advice = f"see whether the tokenizer and the template that {place(talk.spec)} names are those of the served model"
    return f"a prompt that is counted as {counted} tokens is {found.prompt_tokens} on the server; {advice}"


def undrawn(talk: Talk) -> str | None:
    """Which of the entry's sampling the server is not told; None if it is told all."""
    plain = {"top_k": 0, "repetition_penalty": 1}
    left = [name for name, value in talk.spec.sampling.items() if name in plain and value != plain[name]]
    if not left or talk.served.is_vllm:
        return None
    return f"{' and '.join(left)} cannot be said to this server, which draws as it was started"


@dataclass(slots=True, eq=False)
class _Flight:
    """A request on its way."""

    request: Request
    line: Line = field(default_factory=Line)
    began: float = field(default_factory=perf_counter)


class OpenAIEngine:
    """One model on a server; see `engine.Engine`."""

    batch_invariant = False

    def __init__(self, talk: Talk, width: int) -> None:
        """`width` bounds the requests that are under way at once."""
        self.model = talk.spec
        self._talk = talk
        self._pool: Pool | None = Pool(width)
        self._width = width
        self._open: dict[int, _Flight] = {}
        self._outcomes: SimpleQueue[tuple[int, Completion | BaseException]] = SimpleQueue()
        self._failed: dict[int, BaseException] = {}
        self._tickets = 0

    def submit(self, request: Request) -> int:
        """Queue a request."""
        pool = self._running()
        self._talk.check(request)
        self._tickets += 1
        ticket, flight = self._tickets, _Flight(request)
        self._open[ticket] = flight
        pool.put(lambda: self._fly(ticket, flight))
        return ticket

    def step(self) -> list[tuple[int, Completion]]:
        """Wait shortly for answers, and give out those that have come."""
        self._running()
        done: list[tuple[int, Completion]] = []
        until = monotonic() + STEP_SECONDS
        while self._open:
            try:
                ticket, outcome = self._outcomes.get(timeout=0 if done or self._failed else max(until - monotonic(), 0))
            except Empty:
                break
            if self._open.pop(ticket, None) is None:
                continue
            if isinstance(outcome, Completion):
                done.append((ticket, outcome))
            else:
                self._failed[ticket] = outcome
        if self._failed and not done:
            failure = next(iter(self._failed.values()))
            self._abandon()
            raise failure
        return done

    def cancel(self, ticket: int) -> None:
        """Hang up, and forget the ticket."""
        self._failed.pop(ticket, None)
        if (flight := self._open.pop(ticket, None)) is not None:
            flight.line.end()

    def capacity(self) -> int:
        """Requests that are under way at once; whether the server computes them together is its own affair."""
        return self._width

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that these messages make."""
        return self._talk.counter.count(messages)

    def facts(self) -> dict[str, object]:
        """What computes, as far as the server tells."""
        served = self._talk.served
        return {
            "backend": "openai",
            "model": served.model,
            "grammar": self._talk.form,
            "width": self._width,
            "versions": {served.maker or "server": served.version} if served.version else {},
        }

    def close(self) -> None:
        """Hang up on everything; no thread is left."""
        pool, self._pool = self._pool, None
        self._abandon()
        if pool is not None:
            pool.close()

    def _fly(self, ticket: int, flight: _Flight) -> None:
        """One request to its completion or its failure, in a thread of the pool."""
        try:
            outcome: Completion | BaseException = self._talk.complete(flight.request, flight.line, flight.began)
        except Ended:
            return
        except BaseException as error:  # whatever it is, it belongs to whoever waits for the ticket
            outcome = error
        self._outcomes.put((ticket, outcome))

    def _abandon(self) -> None:
        """Lose all open tickets."""
        for flight in self._open.values():
            flight.line.end()
        self._open.clear()
        self._failed.clear()

    def _running(self) -> Pool:
        if self._pool is None:
            raise EngineError(f"{self.model.alias} is not loaded any more", "the night can be resumed")
        return self._pool
