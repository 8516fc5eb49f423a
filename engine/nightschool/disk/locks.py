"""One process at a time: a lock on a file that ends with its holder, however it ends.

The lock is the kernel's (flock), so a killed holder leaves none behind. The file stays and holds one line,
for people: `pid 4711, host kepler, since 2026-01-31 02:10:09 UTC`. What a lock protects is left to others.
"""

import fcntl
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from nightschool.disk.errors import Problem
from nightschool.disk.system import explained, make_folder


class Lock:
    """`with Lock(path):` holds the lock, or raises a Problem that names its holder."""

    def __init__(self, path: Path) -> None:
        """Nothing is locked yet."""
        self.path = path
        self._fd: int | None = None

    def __enter__(self) -> "Lock":
        """Take the lock at once, or raise."""
        with explained(self.path):
            make_folder(self.path.parent)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._take(fd)
            except BaseException:
                os.close(fd)
                raise
        self._fd = fd
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        assert self._fd is not None
        fd, self._fd = self._fd, None
        try:
            with explained(self.path):
                os.ftruncate(fd, 0)
        finally:
            os.close(fd)

    def _take(self, fd: int) -> None:
        try:
            _lock_soon(fd)
        except BlockingIOError as error:
            holder = os.pread(fd, 1000, 0).decode(errors="replace").strip() or "another process"
            raise Problem(f"{self.path} is held by {holder}", "wait until it has ended, or stop it") from error
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()}, host {socket.gethostname()}, since {since}\n".encode(), 0)


def held(path: Path) -> bool:
    """Whether a living process holds the lock. Changes nothing, and holds up a taker for an instant only."""
    if not path.is_file():
        return False
    with explained(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False


def _lock_soon(fd: int) -> None:
    """Lock at once, or after the instant that somebody looks whether the lock is held."""
    for wait in (0.01, 0.05):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(wait)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
