"""The few system calls under files and trees: durable, alone, and explained when they fail.

A temporary file is `.<16 hex>.tmp` in the folder of its target, locked for as long as its writer lives: the
lock, not a process id, tells a living file from one that a kill left behind. Which file is written, and when,
is left to others.
"""

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nightschool.disk.errors import MachineProblem, Problem

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}
_WRONG_PATH = {
    errno.ENOENT,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EXDEV,
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a Problem about `path`."""
    try:
        yield
    except OSError as error:
        what = f"{path}: {(error.strerror or str(error)).lower()}"
        if error.errno in _FULL:
            raise MachineProblem(what, "free some space, then run the same command again") from error
        if error.errno in _REFUSED:
            raise Problem(what, "change its permissions, or use another folder") from error
        if error.errno in _WRONG_PATH:
            raise Problem(what, "check the path") from error
        raise MachineProblem(what, "check the disk, then run the same command again") from error


@contextmanager
def locked(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of `path`, alone among those who ask in this way."""
    fd = os.open(path, flags, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def temporary(folder: Path) -> Iterator[tuple[Path, int]]:
    """A new file in `folder` to write and then rename; whatever stops the block, it does not stay."""
    while True:
        path = folder / f".{secrets.token_hex(8)}.tmp"
        with locked(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
            if os.fstat(fd).st_nlink == 0:
                continue  # swept in the instant before it was locked
            try:
                yield path, fd
            except BaseException:
                with suppress(FileNotFoundError):
                    path.unlink()
                raise
            return


def sweep_file(path: Path) -> bool:
    """Remove `path` if it is a temporary file whose writer is gone."""
    if not _TEMPORARY.fullmatch(path.name):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(fd)
    return True


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time, and bring it to the disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def make_folder(folder: Path) -> None:
    """Make `folder` and its parents, each durable in its own parent."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    sync(folder.parent)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync a folder
            raise
    finally:
        os.close(fd)
