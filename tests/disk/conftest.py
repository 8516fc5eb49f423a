"""A process that can be killed at any of its system calls, and a disk that can fail at any of them.

`for kill in process.kills(): prepare(); with kill: act(); check()` kills before the first call, then before
the second, and so on; the last round is the one that comes through. `process.failures(code)` is the same for
a call that fails.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from nightschool.disk.errors import Problem

settings.register_profile("disk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("disk")

CHANGING = ("open", "write", "fsync", "fchmod", "replace", "rename", "mkdir", "unlink", "rmdir", "truncate")
GROWING = ("open", "write", "fsync", "replace", "rename", "mkdir")


class Killed(BaseException):
    """Stands for SIGKILL: from then on no system call of the process works."""


class Trouble:
    """The context in which the nth call of `names` goes wrong."""

    def __init__(self, names: tuple[str, ...], nth: int, error: OSError | None, torn: bool) -> None:
        self.happened = False
        self.problem: Problem | None = None
        self._names, self._nth, self._error, self._torn = names, nth, error, torn
        self._calls = 0
        self._held: set[int] = set()
        self._stack = ExitStack()

    def __enter__(self) -> "Trouble":
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        real_close = os.close
        for name in self._names:
            patch.setattr(os, name, self._hooked(name, getattr(os, name)))
        hooked_open = os.open

        def opened(*args: Any, **kwargs: Any) -> int:
            fd = hooked_open(*args, **kwargs)
            self._held.add(fd)
            return fd

        def closed(fd: int) -> None:
            self._held.discard(fd)
            real_close(fd)

        patch.setattr(os, "open", opened)
        patch.setattr(os, "close", closed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._stack.close()
        for fd in self._held:  # the kernel closes what a dead process held, and its locks with it
            os.close(fd)
        if isinstance(error, Problem):
            self.problem = error
        return isinstance(error, Problem | Killed)

    def _hooked(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **kwargs)
            self._calls += 1
            if self._calls < self._nth or (self._calls > self._nth and self._error):
                return real(*args, **kwargs)
            self.happened = True
            if self._torn and name == "write" and self._calls == self._nth:
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise self._error or Killed

        return call


class Process:
    """Makes the troubles of one action."""

    def kills(self, *, torn: bool = False) -> Iterator[Trouble]:
        """Killed before each call that changes the disk; `torn`: in the middle of it, if it is a write."""
        return self._each(CHANGING, None, torn)

    def failures(self, code: int) -> Iterator[Trouble]:
        """Each call that may need room fails once, the disk being in the state that `code` says."""
        return self._each(GROWING, OSError(code, os.strerror(code)), torn=False)

    def _each(self, names: tuple[str, ...], error: OSError | None, torn: bool) -> Iterator[Trouble]:
        for nth in range(1, 200):
            trouble = Trouble(names, nth, error, torn)
            yield trouble
            if not trouble.happened:
                return
        raise AssertionError("the action never came through")


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, str | None]]:
    """All that is below a folder: the text of files, None for folders."""

    def take(folder: Path) -> dict[str, str | None]:
        return {
            path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else None
            for path in sorted(folder.rglob("*"))
        }

    return take


@pytest.fixture
def plant() -> Callable[[Path, dict[str, str]], Path]:
    """Makes a folder that holds these files and nothing else, without the code under test."""

    def make(folder: Path, files: dict[str, str]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return folder

    return make
