"""One loaded model for several nights at once: their requests meet in the same batches.

Each night has a view of its own and a thread of its own; whichever thread steps the engine hands the others their
replies. Texts depend on batch mates only as far as floating point does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from nightschool.engine.engine import Engine
from nightschool.engine.types import Completion, EngineError, Message, Request


class Shared:
    """The engine behind the views. Everything on it happens under one lock."""

    def __init__(self, engine: Engine) -> None:
        """Share a loaded engine; its owner closes it."""
        self.engine = engine
        self.lock = threading.Lock()
        self.owners: dict[int, View] = {}

    def view(self) -> View:
        """The engine as one night sees it."""
        return View(self)


class View:
    """An engine for one night; closing it leaves the model loaded."""

    def __init__(self, shared: Shared) -> None:
        """Begin with nothing open."""
        self._shared = shared
        self._done: list[tuple[int, Completion]] = []
        self._error: EngineError | None = None
        self.model = shared.engine.model
        self.batch_invariant = shared.engine.batch_invariant

    def submit(self, request: Request) -> int:
        """Queue a request of this night."""
        with self._shared.lock:
            ticket = self._shared.engine.submit(request)
            self._shared.owners[ticket] = self
            return ticket

    def step(self) -> list[tuple[int, Completion]]:
        """This night's finished replies; advances the engine when there are none yet."""
        with self._shared.lock:
            if not self._done and self._error is None:
                self._advance()
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            done, self._done = self._done, []
            return done

    def cancel(self, ticket: int) -> None:
        """Forget a ticket."""
        with self._shared.lock:
            self._shared.owners.pop(ticket, None)
            self._shared.engine.cancel(ticket)

    def capacity(self) -> int:
        """The engine's."""
        return self._shared.engine.capacity()

    def count(self, messages: Sequence[Message]) -> int:
        """The engine's."""
        return self._shared.engine.count(messages)

    def facts(self) -> Mapping[str, object]:
        """The engine's."""
        return self._shared.engine.facts()

    def close(self) -> None:
        """Other nights still use the model."""

    def _advance(self) -> None:
        try:
            finished = self._shared.engine.step()
        except EngineError as error:
            for owner in set(self._shared.owners.values()):
                owner._error = error
            self._shared.owners.clear()
            return
        for ticket, completion in finished:
            if ticket in self._shared.owners:
                self._shared.owners.pop(ticket)._done.append((ticket, completion))
