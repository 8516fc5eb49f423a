"""Files that a kill cannot tear: atomic writes, one-write appends, exact reads, hashes.

What is rewritten goes to a temporary file beside its target, is fsynced and renamed: a reader sees the old
text or the new one. `system` holds the system calls and the names of temporary files, `trees` whole folders.
What a file means is left to others.
"""

import errno
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from nightschool.disk.errors import Problem
from nightschool.disk.system import explained, locked, make_folder, sync, temporary, write_all
from nightschool.disk.trees import replace_tree, sweep, tree_hash

__all__ = [
    "append",
    "explained",
    "read_text",
    "replace_tree",
    "sha256_file",
    "sha256_text",
    "sweep",
    "tree_hash",
    "write_atomic",
]


def write_atomic(path: Path, data: str | bytes) -> None:
    """Make `data` the whole content of `path`, durably, or leave everything as it was.

    A symbolic link stays one and its target is written; an existing file keeps its permissions.
    """
    raw = data if isinstance(data, bytes) else _encode(data, path)
    target = Path(os.path.realpath(path))
    with explained(path):
        make_folder(target.parent)
        with temporary(target.parent) as (new, fd):
            with suppress(FileNotFoundError):
                os.fchmod(fd, target.stat().st_mode & 0o777)
            write_all(fd, raw)
            new.replace(target)
        sync(target.parent)


def append(path: Path, text: str) -> None:
    """Add `text` at the end of `path` with one write, durably; if the disk is full nothing of it stays."""
    raw = _encode(text, path)
    with explained(path):
        make_folder(path.parent)
        with locked(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
            size = os.fstat(fd).st_size
            try:
                if os.write(fd, raw) < len(raw):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
        if not size:
            sync(path.parent)


def read_text(path: Path) -> str:
    """The text of `path`, exactly: no line end is translated."""
    with explained(path):
        raw = path.read_bytes()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Problem(f"{path}:{line}: not UTF-8", "save the file as UTF-8") from error


def sha256_text(text: str) -> str:
    """The hash of the UTF-8 of `text`; any text has one, even with lone surrogates."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def sha256_file(path: Path) -> str:
    """The hash of the bytes of `path`, however large."""
    with explained(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _encode(text: str, path: Path) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        character = f"U+{ord(text[error.start]):04X}"
        raise Problem(f"{path}: {character} (half a character) cannot be written", "remove it from the text") from error
