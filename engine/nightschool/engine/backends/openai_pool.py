"""Threads that wait for a server: so many calls at once, the others in order. They end with the pool, and leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class Pool:
    """At most `width` calls at once; threads are started as they are needed."""

    def __init__(self, width: int) -> None:
        """Nothing runs yet."""
        self.width = width
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def put(self, call: Callable[[], None]) -> None:
        """Run it as soon as there is room. It must raise nothing."""
        self._calls.put(call)
        if len(self._threads) < self.width:
            # a daemon: a call that hangs must not keep a program from ending that forgot to close its engine
            thread = Thread(target=self._run, name="server-call", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Wait for the calls to end; whoever closes has told them to."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
