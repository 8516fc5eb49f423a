"""Tickets from their submission to their completion, for the backends that run a model in this process.

Requests queue here, are admitted while they fit beside the running ones, and are handed out when they are finished;
each has its row in the `GrammarBatch`. What computes is the backend's; what a reply has said so far is `reply.py`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nightschool.disk.errors import Problem
from nightschool.engine.chat import Chat
from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.reply import Reply, open_reply
from nightschool.engine.types import Completion, OutOfMemory, Request

WIDTH = 32
"""Rows in a batch when nobody says: beyond, a CPU gains little."""
VLLM_HAS_NO_ROOM = ("free memory on device", "no available memory for the cache", "larger than the available kv cache")
"""How vLLM says it when it starts, as a ValueError."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What rows may take, in bytes: `room` for all, `token` for each token of a row, `row` for each row besides.

    Where rows are `padded`, each takes as much as the longest.
    """

    room: int
    token: int
    row: int = 0
    padded: bool = False

    def need(self, *lengths: int) -> int:
        """What rows of so many tokens take together."""
        tokens = len(lengths) * max(lengths, default=0) if self.padded else sum(lengths)
        return len(lengths) * self.row + tokens * self.token


class Intake:
    """The tickets of one engine: queued, running, done."""

    def __init__(self, chat: Chat, memory: Memory, width: int | None, say: Callable[[str], None]) -> None:
        """`width` bounds the rows of a batch (None: WIDTH); `say` is told when memory runs out."""
        self.chat, self.memory, self.width = chat, memory, width or WIDTH
        self.grammars = GrammarBatch(chat.vocabulary)
        self.running: dict[int, Reply] = {}
        self._queue: deque[Reply] = deque()
        self._done: list[tuple[int, Completion]] = []
        """What finished and was not handed out yet: a step that fails later must not lose it."""
        self._tickets = 0
        self._say = say
        self._told = False

    def submit(self, request: Request) -> int:
        """Queue a request."""
        self._tickets += 1
        reply = open_reply(self._tickets, request, self.chat)
        self._constrain(reply)
        self._queue.append(reply)
        return reply.ticket

    def cancel(self, ticket: int) -> bool:
        """Forget a ticket; whether it was running."""
        self.grammars.remove(ticket)
        self._queue = deque(reply for reply in self._queue if reply.ticket != ticket)
        self._done = [finished for finished in self._done if finished[0] != ticket]
        return self.running.pop(ticket, None) is not None

    def capacity(self) -> int:
        """Rows of the longest kind that fit in memory."""
        return max(1, min(self.width, self.memory.room // max(self.memory.need(self.chat.spec.context), 1)))

    def admit(self) -> list[Reply]:
        """The replies at the head of the queue that fit beside the running ones; they run from now on."""
        fresh: list[Reply] = []
        while self._queue and len(self.running) < self.width:
            lengths = [reply.longest for reply in (*self.running.values(), self._queue[0])]
            if self.running and self.memory.need(*lengths) > self.memory.room:
                self._tell_of_waiting()
                break
            reply = self._queue.popleft()
            self.running[reply.ticket] = reply
            fresh.append(reply)
        return fresh

    def finish(self, reply: Reply) -> None:
        """It is complete, and no longer runs."""
        self._done.append((reply.ticket, reply.completion()))
        self.grammars.remove(reply.ticket)
        del self.running[reply.ticket]

    def take(self) -> list[tuple[int, Completion]]:
        """Hand out what is done."""
        done, self._done = self._done, []
        return done

    def abandon(self) -> None:
        """Lose all open tickets."""
        for reply in (*self._queue, *self.running.values()):
            self.grammars.remove(reply.ticket)
        self._queue.clear()
        self._done.clear()
        self.running.clear()

    def halve(self) -> None:
        """Out of memory: what runs goes back to the head of the queue and begins again, in a batch half as wide.

        Raises OutOfMemory when the batch is one row already: all tickets are lost.
        """
        if self.width == 1:
            self.abandon()
            raise OutOfMemory("one row alone does not fit in memory", "choose a smaller model or context")
        self.width = max(1, min(self.width, len(self.running) or self.width) // 2)
        rows = "1 row" if self.width == 1 else f"{self.width} rows"
        self._say(f"{self.chat.spec.alias} ran out of memory: going on with {rows}")
        again = list(self.running.values())
        self.running.clear()
        for reply in reversed(again):
            reply.restart()
            self.grammars.remove(reply.ticket)
            self._constrain(reply)
            self._queue.appendleft(reply)

    def _tell_of_waiting(self) -> None:
        """Once: that the memory, not the width, bounds the batch."""
        if not self._told:
            self._told = True
            self._say(f"{self.chat.spec.alias}: {len(self.running)} rows fill the memory, the others wait")

    def _constrain(self, reply: Reply) -> None:
        request = reply.request
        try:
            self.grammars.add(reply.ticket, request.grammar, request.sampling.max_tokens, reply.thought)
        except ValueError as error:
            raise Problem(f"no reply fits: {error}", "raise max_tokens") from None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a library's error says that memory ran out."""
    text = str(error).lower()
    told = ("allocate memory", "out of memory", "attempting to allocate", "insufficient memory", *VLLM_HAS_NO_ROOM)
    return isinstance(error, MemoryError) or any(words in text for words in told)
