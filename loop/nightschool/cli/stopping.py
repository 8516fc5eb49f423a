"""Ctrl-C and SIGTERM in a night: the first finishes the current step, the second stops at once, whatever the engine is at.

Python handles a signal between two of its own instructions, so not while a library computes. The system's handler writes
the signal's number into a pipe all the same, and a thread reads it there. Stopping at once is safe because every file is
written as if a kill could come at any time; the workspace's lock goes with the process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from nightschool.cli import STOPPED

if TYPE_CHECKING:
    from nightschool.loop.crew import Crew

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = "\x1b[?25h"


class Stops:
    """Counts the signals of a night. Until `crew` is there nothing is under way that could be finished."""

    def __init__(self, farewell: str, say: Callable[[str], None]) -> None:
        """`farewell` is the last line of a process that stops at once; `say` tells what the first signal does."""
        self.crew: Crew | None = None
        self._farewell, self._say = farewell, say
        self._lock = threading.RLock()  # a handler may interrupt the same thread while it is in here
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take the signals for as long as the block runs."""
        listener = threading.Thread(target=self._listen, daemon=True)
        before = {number: signal.signal(number, lambda *_: self._take()) for number in SIGNALS}
        told = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        listener.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(told)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._write)
            listener.join()
            os.close(self._read)

    def _listen(self) -> None:
        """Until the other end is closed."""
        while select.select([self._read], [], []) and self._take():
            pass

    def _take(self) -> bool:
        """Count what came; whichever thread is first does it. False when nothing will come any more."""
        with self._lock:
            try:
                came = os.read(self._read, 64)
            except BlockingIOError:
                return True
            for number in came:
                if number in SIGNALS:
                    self._press()
            return bool(came)

    def _press(self) -> None:
        if self.crew is None or self.crew.stopping:
            leave(self._farewell)
        self.crew.stopping = True
        with suppress(RuntimeError):  # the signal may have come in the middle of printing a line
            self._say("stopping after this step; Ctrl-C again stops at once")


def leave(farewell: str) -> NoReturn:
    """End this process now, with whatever it has started; the terminal is left as it was found."""
    if "multiprocessing" in sys.modules:  # an engine in a process of its own would outlive this one
        import multiprocessing

        for child in multiprocessing.active_children():
            child.kill()
    restored = f"{SHOW_CURSOR}\n" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{restored}{farewell}\n".encode())
    os._exit(STOPPED)
