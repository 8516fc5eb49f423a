"""The record: what ever happened to knowledge, and how often a rule was given out.

On disk two logs that only grow, JSON lines (`nightschool.disk.jsonl`):

- `memory/log.jsonl`: {"schema", "id", "event", "time", "tag"?, ...}, in the order in which it happened. Whatever is
  removed stands there in full, so nothing disappears without a trace.
- `memory/usage.jsonl`: {"schema", "tag", "session", "time"}, each pair of tag and session once.

Writing the log belongs to `transaction`, which also keeps what was committed and is not yet in it. The clock is always
given from outside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained
from nightschool.disk.jsonl import AppendLog

SCHEMA = 1
OWN = ("schema", "id", "event", "time", "tag")

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock of this machine."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """A moment as the logs spell it: `2026-01-31T02:10:09Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """What `stamp` wrote."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; the transaction that records it gives it its id."""

    kind: str
    time: str
    tag: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def record(self) -> dict[str, Any]:
        """The line of the log."""
        named = {} if self.tag is None else {"tag": self.tag}
        return {"schema": SCHEMA, "id": self.id, "event": self.kind, "time": self.time, **named, **self.data}


@dataclass(frozen=True, slots=True)
class Use:
    """A rule was given out in a session."""

    tag: str
    session: str
    time: str


def event(record: Mapping[str, Any], where: str) -> Event:
    """The event of a line of the log; a Problem if this version cannot read it."""
    texts = [record.get(key) for key in ("id", "event", "time")]
    _check(record, where, (*texts, record.get("tag", "")))
    data = {key: value for key, value in record.items() if key not in OWN}
    return Event(str(texts[1]), str(texts[2]), record.get("tag"), data, str(texts[0]))


def read_log(path: Path, later: Iterable[Mapping[str, Any]] = ()) -> list[Event]:
    """All events of a log, oldest first, and those of `later` (committed, not yet written) that it lacks."""
    events = [event(record, where) for record, where in _records(path)]
    known = {found.id for found in events}
    return events + [new for record in later if (new := event(record, f"{path} (pending)")).id not in known]


def read_usage(path: Path) -> list[Use]:
    """Every use that was recorded, oldest first."""
    uses = []
    for record, where in _records(path):
        texts = [record.get(key) for key in ("tag", "session", "time")]
        _check(record, where, texts)
        uses.append(Use(*map(str, texts)))
    return uses


def add_usage(path: Path, uses: Sequence[Use]) -> None:
    """Record uses; the caller holds the tree's lock and has looked that they are new."""
    log = AppendLog(path)
    for use in uses:
        log.append({"schema": SCHEMA, "tag": use.tag, "session": use.session, "time": use.time})


def history(events: Sequence[Event], tag: str) -> list[Event]:
    """A rule's whole life: what bears its tag, and the drafts that it was made of."""
    drafts = {text for found in events if found.tag == tag for text in found.data.get("entries", ())}
    return [found for found in events if found.tag == tag or found.data.get("entry") in drafts]


def _records(path: Path) -> list[tuple[dict[str, Any], str]]:
    """The lines of a log without changing it: a last line without its end is not there yet."""
    with explained(path):
        if not path.exists():
            return []
        raw = path.read_bytes()
    lines = raw[: raw.rfind(b"\n") + 1].split(b"\n")
    return [(_record(line, f"{path}:{n}"), f"{path}:{n}") for n, line in enumerate(lines, start=1) if line.strip()]


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise Problem(f"{where}: not JSON", "mend that line, or restore the file from git") from error
    if not isinstance(record, dict):
        raise Problem(f"{where}: not a JSON object", "mend that line, or restore the file from git")
    return record


def _check(record: Mapping[str, Any], where: str, texts: Iterable[object]) -> None:
    if record.get("schema") != SCHEMA:
        advice = "use the version of nightschool that wrote it, or a newer one"
        raise Problem(f"{where}: schema {record.get('schema')!r}, this version reads {SCHEMA}", advice)
    if not all(isinstance(text, str) for text in texts):
        raise Problem(f"{where}: a field is missing or is no text", "mend that line, or restore the file from git")
    try:
        moment(str(record["time"]))
    except ValueError as error:
        raise Problem(f"{where}: {record['time']!r} is no time", "write it as 2026-01-31T02:10:09Z") from error
