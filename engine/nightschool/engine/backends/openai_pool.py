"""Threads that wait for a server: so many calls at once, the others in order. They end with the pool, and leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

SPARE_FILES = 256
"""That the rest of the process may have open."""


class Pool:
    """At most `width` calls at once; threads are started as they are needed."""

    def __init__(self, width: int) -> None:
        """Nothing runs yet; the process may open a connection for each call from now on."""
        self.width = width
        _allow_files(width + SPARE_FILES)
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def put(self, call: Callable[[], None]) -> None:
        """Run it as soon as there is room. It must raise nothing."""
        self._calls.put(call)
        if len(self._threads) < self.width:
            # a daemon: a call that hangs must not keep a program from ending that forgot to close its engine
            thread = Thread(target=self._run, name="server-call", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the machine has no more: those that there are do it
                if not self._threads:
                    raise
                self.width = len(self._threads)
                return
            self._threads.append(thread)

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


def _allow_files(wanted: int) -> None:
    """Raise this process's own limit of open files, as far as the machine's lets it; many begin with 256 or 1024."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
