r"""JSON lines: data files that people write, and logs that only grow.

One JSON object a line, UTF-8, `\n` after each; blank lines are passed over. In a log, a last line without its
`\n` is what a kill in the middle of a write leaves: it was never promised to anybody and is cut off.
Everything else that is no strict JSON object (NaN, a key given twice, half a surrogate pair) is refused with
its line. What a record means is left to others.
"""

import codecs
import fcntl
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.disk.files import append, explained


def read(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a JSON lines file, each with its line number."""
    return [(number, record(line, f"{path}:{number}")) for number, line in lines(path)]


def lines(path: Path) -> list[tuple[int, bytes]]:
    """The lines of such a file that are not blank, each with its number: for `record`, one by one."""
    with explained(path):
        raw = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    return [(number, line) for number, line in enumerate(raw, start=1) if line.strip()]


class AppendLog:
    """A log of records that any number of processes may write to; each append is durable when it returns."""

    def __init__(self, path: Path) -> None:
        """Open, mend and check the log; it comes into being with its first record."""
        self.path = path
        self.records()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record."""
        line = json.dumps(dict(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._cut_torn_line()  # another process may have been killed in the middle of its own
        append(self.path, line + "\n")

    def records(self) -> list[dict[str, Any]]:
        """All records, oldest first, as they are on the disk now."""
        self._cut_torn_line()
        return [record for _, record in read(self.path)] if self.path.exists() else []

    def _cut_torn_line(self) -> None:
        with explained(self.path):
            try:
                fd = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                return
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)  # a line that is still being written is not torn
                size = os.fstat(fd).st_size
                if size and os.pread(fd, 1, size - 1) != b"\n":
                    os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)
                    os.fsync(fd)
            finally:
                os.close(fd)


def record(line: bytes, where: str) -> dict[str, Any]:
    """The object of one line; a Problem that opens with `where` for anything else."""
    try:
        value = json.loads(line.decode(), object_pairs_hook=_object, parse_float=_number, parse_constant=_number)
        if "\\u" in line.decode():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise Problem(f"{where}: not UTF-8", "save the file as UTF-8") from error
    except UnicodeEncodeError as error:
        raise Problem(f"{where}: half a surrogate pair", "write both halves, or neither") from error
    except json.JSONDecodeError as error:
        raise Problem(f"{where}: not JSON: {error.msg} at column {error.colno}", "mend or remove that line") from error
    except (ValueError, RecursionError) as error:
        raise Problem(f"{where}: not JSON: {error}", "mend or remove that line") from error
    if not isinstance(value, dict):
        raise Problem(f"{where}: not a JSON object", 'write one object a line, as in {"id": "a"}')
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return found


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number
