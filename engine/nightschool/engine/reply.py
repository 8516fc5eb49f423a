"""One reply in the making, for backends that sample token by token in this process.

A `Reply` is told each token and knows when the text is over: an end-of-text token, a stop string, or the budget.
The end that a grammar brings is the caller's to tell, by `end`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from nightschool.engine.chat import Chat
from nightschool.engine.grammar import accepts
from nightschool.engine.types import Completion, Finish, PromptTooLong, Request, Usage
from nightschool.engine.vocabulary import Thought


@dataclass(slots=True, eq=False)
class Reply:
    """What has been generated for one ticket."""

    ticket: int
    request: Request
    prompt: list[int]
    chat: Chat
    boundaries: tuple[int, ...] = ()
    thought: Thought | None = None
    """Set while the model thinks."""
    finish: Finish | None = None
    cached: int = 0
    ids: list[int] = field(default_factory=list)
    """All generated tokens, thinking included."""
    _text: bytearray = field(default_factory=bytearray)
    _thinking: bytearray = field(default_factory=bytearray)
    _spoken: int = 0
    """Tokens of the reply itself, its end included."""
    _forced: int = 0
    _logprob: float = 0.0
    _began: float = field(default_factory=time.perf_counter)
    _first: float = 0.0
    _after: str = ""
    _thinks: bool = field(init=False)
    longest: int = field(init=False)
    """Tokens of the prompt and the longest reply, thinking included."""

    def __post_init__(self) -> None:
        """Remember how it began."""
        self._thinks = self.thought is not None
        thinking = self.thought.tokens + 1 if self.thought is not None else 0
        self.longest = len(self.prompt) + self.request.sampling.max_tokens + thinking

    def restart(self) -> None:
        """Forget what was generated; the clock goes on."""
        self.thought, self.finish, self.cached, self._after = thought_of(self.chat, self.request), None, 0, ""
        self.ids, self._text, self._thinking = [], bytearray(), bytearray()
        self._spoken, self._forced, self._logprob, self._first = 0, 0, 0.0, 0.0

    @property
    def constrained(self) -> bool:
        """Whether a matcher follows it: under a grammar, and in free text after thinking."""
        return self.request.grammar is not None or self._thinks

    @property
    def drawing(self) -> tuple[float, int, float, int, int]:
        """How its next token is drawn: temperature, top_k, top_p, seed, position."""
        sampling = self.request.sampling
        return sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed, len(self.ids)

    def accept(self, token: int, logprob: float = 0.0, forced: bool = False) -> None:
        """The next token; `finish` is set if the reply is over with it."""
        self._first = self._first or time.perf_counter()
        self.ids.append(token)
        self._logprob += logprob
        self._forced += forced
        if self.thought is not None:
            self._think(token, self.thought)
            return
        self._spoken += 1
        if token in self.chat.eos:
            self.finish = "stop"
            return
        known = len(self._text)
        self._text += self.chat.tokens.bytes_of(token)
        if self.request.grammar is None:
            self._stop(known)
        if self._spoken >= self.request.sampling.max_tokens:
            self.end("length")

    def end(self, finish: Finish) -> None:
        """It is over, unless it was already."""
        self.finish = self.finish or finish

    def completion(self) -> Completion:
        """The finished reply."""
        text = self._text.decode("utf-8", errors="replace").removeprefix(self._after)
        finish = self.finish or "cancelled"
        grammar, now = self.request.grammar, time.perf_counter()
        return Completion(
            text=text,
            finish=finish,
            usage=Usage(len(self.prompt), self.cached, len(self.ids), self._forced, len(self.ids) - self._spoken),
            thinking=self._thinking.decode("utf-8", errors="replace").strip(),
            valid=finish == "stop" and (grammar is None or accepts(grammar, text)),
            seconds=now - self._began,
            first_token_seconds=(self._first or now) - self._began,
            logprob=self._logprob,
        )

    def _think(self, token: int, thought: Thought) -> None:
        if token == thought.close:
            self.thought, self._after = None, thought.after
        else:
            self._thinking += self.chat.tokens.bytes_of(token)

    def _stop(self, known: int) -> None:
        """Cut the text at the first stop string, none of which ends before `known`.

        What the template writes after the thinking is no part of the text, and stops nothing.
        """
        stops = [stop.encode() for stop in (*self.request.sampling.stop, *self.chat.stops)]
        places = [self._text.find(stop, max(len(self._after), known - len(stop) + 1)) for stop in stops]
        if found := [place for place in places if place >= 0]:
            del self._text[min(found) :]
            self.finish = "stop"


def open_reply(ticket: int, request: Request, chat: Chat) -> Reply:
    """The reply to a request. Raises PromptTooLong when it does not fit the model's context."""
    thought = thought_of(chat, request)
    encoded = chat.encode(request.messages, thought is not None)
    reply = Reply(ticket, request, encoded.ids, chat, encoded.boundaries, thought)
    if reply.longest > chat.spec.context:
        name, size = max(chat.parts(request.messages), key=lambda part: part[1])
        raise PromptTooLong(
            f"the prompt has {len(encoded.ids)} tokens and the reply up to {reply.longest - len(encoded.ids)}, "
            f"but {chat.spec.alias} takes {chat.spec.context}; the longest part is {name} with {size}",
            "shorten that part, or lower max_tokens",
        )
    return reply


def thought_of(chat: Chat, request: Request) -> Thought | None:
    """How this request's thinking ends; None if it does not think, or the model cannot."""
    if not request.think or chat.spec.thinking is None:
        return None
    return chat.vocabulary.thought(request.sampling.think_tokens, chat.spec.thinking.close)
