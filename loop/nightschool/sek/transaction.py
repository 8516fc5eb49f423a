"""Several files and the log, changed as one: all of it or nothing, however the process ends.

`commit` first writes a redo record, atomically; from then on the change stands, and the rest is carried out by whoever
comes next: each file is renamed into place, the events are appended unless the log has their ids, the record goes.
Readers who look into the record see the change whole before that. All writers take one lock.

On disk `memory/.pending.json`: {"schema": 1, "id", "files": {path: base64, or null for removed}, "before": {path: sha256
or null}, "events": [lines of the log]}. What is changed, and why, is left to others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained, sweep, write_atomic
from nightschool.disk.jsonl import AppendLog
from nightschool.disk.locks import Lock
from nightschool.disk.system import sync
from nightschool.sek.record import Event, event, read_log, stamp, utc_now
from nightschool.sek.tree import LOG, PENDING, Tree

SCHEMA = 1
LOCK = "memory/.lock"
PATIENCE = 10.0
"""Seconds to wait for another writer, who needs milliseconds."""


class Changed(Problem):
    """A file is no longer what the operation has read: somebody edits it; the operation can be run again."""


@contextmanager
def writing(tree: Tree) -> Iterator[Tree]:
    """Be the only writer of the tree, and see it as it is now; what a killed one has committed is carried out first."""
    with _patiently(tree.inside(LOCK)):
        recover(tree)
        yield Tree(tree.root)


def commit(
    tree: Tree,
    files: Mapping[str, bytes | None],
    events: Sequence[Event],
    seen: Mapping[str, bytes | None] | None = None,
) -> list[Event]:
    """Make these the contents of these files (None: removed) and record the events; within `writing`.

    `seen` is what the operation has read: if one of these files differs by now, nothing is done and Changed is raised.
    """
    before = {path: _read(tree.inside(path)) for path in {**(seen or {}), **files}}
    for path, expected in (seen or {}).items():
        if before[path] != expected:
            raise Changed(f"{tree.inside(path)} was changed in this moment by somebody else", "run the command again")
    number = secrets.token_hex(8)
    dated = [replace(found, id=f"{number}-{n}") for n, found in enumerate(events)]
    record = {
        "schema": SCHEMA,
        "id": number,
        "files": {path: _coded(raw) for path, raw in files.items() if before[path] != raw},
        "before": {path: _sha(before[path]) for path, raw in files.items() if before[path] != raw},
        "events": [found.record() for found in dated],
    }
    if record["files"] or record["events"]:
        write_atomic(tree.inside(PENDING), json.dumps(record) + "\n")
        _carry_out(tree, record)
    return dated


def recover(tree: Tree) -> bool:
    """Carry out what a killed process has committed; whether there was something."""
    path = tree.inside(PENDING)
    record = _pending(path)
    if path.parent.is_dir():
        sweep(path.parent, only=())
    if record is None:
        return False
    _carry_out(tree, record)
    return True


def events_of(tree: Tree) -> list[Event]:
    """The log as it stands, what is committed and not yet written included. Changes nothing."""
    record = _pending(tree.inside(PENDING))
    return read_log(tree.inside(LOG), record["events"] if record else ())


@contextmanager
def _patiently(path: Path) -> Iterator[None]:
    lock, until = Lock(path), time.monotonic() + PATIENCE
    while True:
        try:
            lock.__enter__()
        except Problem as error:
            if time.monotonic() > until or not isinstance(error.__cause__, BlockingIOError):
                raise
            continue
        break
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _carry_out(tree: Tree, record: Mapping[str, Any]) -> None:
    """The change itself; may be stopped anywhere and called again."""
    files: dict[str, str | None] = record["files"]
    log = AppendLog(tree.inside(LOG))
    _append(log, _displaced(tree, record))
    for path, coded in files.items():
        target = tree.inside(path)
        if target.parent.is_dir():
            sweep(target.parent, only=())
        raw = _plain(coded)
        if raw is not None and _read(target) != raw:
            write_atomic(target, raw)
        elif raw is None and target.exists():
            with explained(target):
                target.unlink()
                sync(target.parent)
    _append(log, record["events"])
    pending = tree.inside(PENDING)
    with explained(pending):
        pending.unlink(missing_ok=True)
        sync(pending.parent)


def _append(log: AppendLog, records: Sequence[Mapping[str, Any]]) -> None:
    known = {found.get("id") for found in log.records()}
    for found in records:
        if found["id"] not in known:
            log.append(found)


def _displaced(tree: Tree, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A line of the log for each file that a person has edited since the change was committed: the text in full."""
    found = []
    for path, coded in record["files"].items():
        raw = _read(tree.inside(path))
        if raw is not None and raw != _plain(coded) and _sha(raw) != record["before"][path]:
            name = f"{record['id']}-displaced-{_sha(raw)}"
            data = {"path": path, "text": raw.decode(errors="replace")}
            found.append(Event("displaced", stamp(utc_now()), None, data, name).record())
    return found


def _pending(path: Path) -> dict[str, Any] | None:
    with explained(path):
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
    advice = "restore it, or remove it to drop the unfinished change"
    try:
        record = json.loads(raw)
        files, before, events = record["files"], record["before"], record["events"]
        good = record["schema"] == SCHEMA and files.keys() == before.keys()
        for coded in files.values():
            _plain(coded)
        for found in events:
            event(found, str(path))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(f"{path}: not an unfinished change that this version can read", advice) from error
    if not good:
        raise Problem(f"{path}: not an unfinished change that this version can read", advice)
    return dict(record)


def _read(path: Path) -> bytes | None:
    with explained(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def _coded(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _plain(coded: str | None) -> bytes | None:
    return None if coded is None else base64.b64decode(coded, validate=True)


def _sha(raw: bytes | None) -> str | None:
    return None if raw is None else hashlib.sha256(raw).hexdigest()
