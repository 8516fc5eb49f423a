"""An engine without a model: it says what it was told to say. For tests, and for trying a night without weights.

Replies are given out in the order of tickets, and a grammar is obeyed: a scripted reply that the grammar of its request
does not accept is an EngineError, so a test cannot pass on a reply that no real engine would give.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from nightschool.engine.grammar import accepts
from nightschool.engine.models import ModelSpec, scripted_spec
from nightschool.engine.types import (
    Completion,
    EngineError,
    Finish,
    Message,
    PromptTooLong,
    Request,
    Usage,
)

Script = str | Callable[[Request], str]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_TURN = 3
"""Tokens that a template would add to each message."""


def load(spec: ModelSpec, *, width: int | None = None, say: Callable[[str], None] | None = None) -> ScriptedEngine:
    """An engine that gives the shortest reply that each request allows; `width` bounds the replies of a step."""
    return ScriptedEngine(default=shortest, context=spec.context, spec=spec, width=width)


def shortest(request: Request) -> str:
    """The shortest reply that the request's grammar accepts; free text is empty."""
    if request.grammar is None:
        return ""
    if request.grammar.node is None:
        raise EngineError("a Lark grammar by hand has no shortest reply", "script a reply for it")
    return request.grammar.node.closing().decode("utf-8", "replace")


class ScriptedEngine:
    """Says its replies one after the other, then `default`; see `engine.Engine`."""

    batch_invariant = True

    def __init__(
        self,
        replies: Iterable[Script] = (),
        *,
        default: Script | None = None,
        context: int = 8192,
        spec: ModelSpec | None = None,
        width: int | None = None,
    ) -> None:
        """A reply is a text, or a function of the request. `width` bounds the replies of one step."""
        self.model = spec or scripted_spec(context)
        self.prompts: list[Request] = []
        """Every request so far."""
        self.closed = False
        self._replies: deque[Script] = deque(replies)
        self._default = default
        self._open: dict[int, Request] = {}
        self._width = width
        self._tickets = 0

    def enqueue(self, *replies: Script) -> None:
        """Add to the replies."""
        self._replies.extend(replies)

    def submit(self, request: Request) -> int:
        """Queue a request."""
        wanted = self.count(request.messages) + request.sampling.max_tokens
        if wanted > self.model.context:
            index = max(range(len(request.messages)), key=lambda i: tokens(request.messages[i].content))
            message = request.messages[index]
            raise PromptTooLong(
                f"prompt and reply need {wanted} tokens, but {self.model.alias} takes {self.model.context}; the "
                f"longest part is message {index + 1} ({message.role}) with {tokens(message.content)}",
                "shorten that part, or lower max_tokens",
            )
        self.prompts.append(request)
        self._tickets += 1
        self._open[self._tickets] = request
        return self._tickets

    def step(self) -> list[tuple[int, Completion]]:
        """Answer the oldest open requests: all, or as many as a step is wide."""
        tickets = list(self._open)[: self._width]
        done = []
        for ticket in tickets:
            request = self._open.pop(ticket)
            try:
                done.append((ticket, self._answer(request)))
            except EngineError:
                self._open.clear()
                raise
        return done

    def cancel(self, ticket: int) -> None:
        """Forget a ticket; its reply is left for the next."""
        self._open.pop(ticket, None)

    def capacity(self) -> int:
        """Replies that one step gives."""
        return self._width or 32

    def count(self, messages: Sequence[Message]) -> int:
        """Words and signs of the messages, and a little for each turn."""
        return sum(tokens(message.content) + _TURN for message in messages) + _TURN

    def facts(self) -> dict[str, object]:
        """Nothing computes here."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
        self.closed = True
        self._open.clear()

    def _answer(self, request: Request) -> Completion:
        script = self._replies.popleft() if self._replies else self._default
        if script is None:
            raise EngineError(f"no scripted reply is left for {_tail(request)}", "enqueue one, or give a default")
        text = script if isinstance(script, str) else script(request)
        if request.grammar is not None and not accepts(request.grammar, text):
            raise EngineError(
                f"the scripted reply {text[:200]!r} is not in the grammar of {_tail(request)}",
                "script a reply that the grammar accepts",
            )
        if request.grammar is None:
            text = _stopped(text, request.sampling.stop)
        text, finish = _cut(text, request.sampling.max_tokens)
        usage = Usage(self.count(request.messages), 0, tokens(text) + 1, 0, 0)
        return Completion(text, finish, usage, valid=finish == "stop")


def tokens(text: str) -> int:
    """Words and signs."""
    return len(_TOKEN.findall(text))


def _stopped(text: str, stops: Iterable[str]) -> str:
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]


def _cut(text: str, limit: int) -> tuple[str, Finish]:
    """At most so many tokens, the end of text included."""
    ends = [match.end() for match in _TOKEN.finditer(text)]
    return (text, "stop") if len(ends) < limit else (text[: ends[limit - 1]], "length")


def _tail(request: Request) -> str:
    return repr(request.messages[-1].content[-80:]) if request.messages else "an empty request"
