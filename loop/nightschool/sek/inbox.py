"""The inbox: drafts of three lines, where new knowledge is born.

On disk `memory/inbox.md`:

    - [2026-01-31] topic · kind · session
      expected: ... got: ...
      where: ...

Read tolerantly, for agents and people write it by hand: any list item is an entry, whatever it lacks; what is no list item
stays where it is. An entry without a session counts as of the session of its day. It is confirmed if it says so (a last
part `· confirmed`), and for as long as a second entry has its topic. When entries go, and where to, is lifecycle.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from nightschool.disk.errors import Problem, nearest
from nightschool.sek.prose import heading, lines, newline, one_line, shown
from nightschool.sek.words import similarity, topic_key

LIMIT = 20
KINDS = ("unexpected", "workaround", "undocumented-api", "correction")
CONFIRMED = "confirmed"
ALIKE = 0.8
"""From this similarity on, two topics are one."""
HEADER = """# Inbox

Drafts of what was unexpected, three lines each, at most 20. They become rules when they are seen again, or expire.
"""
LONGEST_TOPIC, LONGEST_SESSION, LONGEST_TEXT = 120, 80, 600
_START = re.compile(r" ?(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(?=\S)|(?=\[\d{4}-\d\d-\d\d)")
_DATE = re.compile(r"\[?(\d{4}-\d\d-\d\d)[^\]\s]*\]?[:,]?\s*")
_LABEL = re.compile(r"\b(expected|got|where)\s*:\s*", re.I)


@dataclass(frozen=True, slots=True)
class Entry:
    """One draft; `text` is what the file says, from line `start` to line `end` (counted from 0, `end` excluded)."""

    topic: str
    kind: str = KINDS[0]
    session: str = ""
    day: date | None = None
    expected: str = ""
    got: str = ""
    where: str = ""
    confirmed: bool = False
    text: str = ""
    start: int = 0
    end: int = 0

    @property
    def source(self) -> str:
        """The session that it counts as."""
        return self.session or (self.day.isoformat() if self.day else "")

    @property
    def essence(self) -> str:
        """What it says, without when and where."""
        return " ".join(filter(None, (self.topic, self.expected, self.got)))


def draft(topic: str, kind: str, session: str, expected: str, got: str, where: str, day: date) -> Entry:
    """A new entry of what somebody says, made fit to stand in the file; a Problem if it says too little or too much."""
    if kind not in KINDS:
        raise Problem(f"{kind!r} is no kind of entry", nearest(kind, KINDS))
    said = one_line(topic, "the topic", LONGEST_TOPIC).lstrip("#>*+- ")
    if not any(char.isalnum() for char in said):
        raise Problem("an entry needs a topic", "name in a few words what it is about")
    texts = {"expected": expected, "got": got, "where": where}
    wanted, came, place = (one_line(text, f"{name!r}", LONGEST_TEXT) for name, text in texts.items())
    if not wanted and not came:
        raise Problem("an entry needs what was expected or what came", "give --expected and --got")
    source = one_line(session, "the session", LONGEST_SESSION)
    if _plain(source) in (*KINDS, CONFIRMED):
        source = f"session {source}"
    entry = Entry(said, kind, source, day, wanted, came, place)
    return parse(render(entry))[0]


def render(entry: Entry) -> str:
    """The three lines of an entry."""
    head = " · ".join(filter(None, (entry.topic, entry.kind, entry.session, CONFIRMED if entry.confirmed else "")))
    day = f"[{entry.day.isoformat()}] " if entry.day else ""
    return f"- {day}{head}\n  expected: {entry.expected} got: {entry.got}\n  where: {entry.where}\n"


def parse(text: str) -> tuple[Entry, ...]:
    """All entries, as they stand."""
    rows = lines(text)
    said = shown(rows)
    starts = [n for n, row in enumerate(rows) if said[n] and _START.match(row) and not heading(row)]
    return tuple(_entry(rows, start, _end(rows, said, start)) for start in starts)


def added(text: str, entry: Entry) -> str:
    """The file with an entry at its end."""
    end = newline(text)
    head = (text or HEADER).rstrip()
    below_entry = any(found.end == len(lines(head)) for found in parse(head))
    return end.join([head, *([] if below_entry or not head else [""]), *render(entry).split("\n")])


def removed(text: str, entries: Iterable[Entry]) -> str:
    """The file without these entries of its."""
    rows = lines(text)
    for entry in sorted(entries, key=lambda entry: -entry.start):
        del rows[entry.start : entry.end]
        above = rows[entry.start - 1] if entry.start else "\n"
        if entry.start < len(rows) and not above.strip() and not rows[entry.start].strip():
            del rows[entry.start]
    return "".join(rows)


def dated(text: str, today: date) -> str:
    """The file with today's date in every entry that has none: from now on it ages as the others do."""
    rows = lines(text)
    for entry in parse(text):
        if entry.day is None:
            match = _START.match(rows[entry.start])
            at = match.end() if match else 0
            rows[entry.start] = f"{rows[entry.start][:at]}[{today.isoformat()}] {rows[entry.start][at:]}"
    return "".join(rows)


def same_topic(one: str, other: str) -> bool:
    """Whether two topics are one, however they are spelled."""
    return topic_key(one) == topic_key(other) or similarity(one, other) >= ALIKE


def topics(entries: Sequence[Entry]) -> list[tuple[Entry, ...]]:
    """The entries by topic, in the order in which the topics came up."""
    groups: list[list[Entry]] = []
    for entry in entries:
        group = next((group for group in groups if same_topic(group[0].topic, entry.topic)), None)
        if group is None:
            groups.append([entry])
        else:
            group.append(entry)
    return [tuple(group) for group in groups]


def sessions(entries: Iterable[Entry]) -> int:
    """From how many different sessions entries come."""
    return len({entry.source for entry in entries})


def expired(entries: Sequence[Entry], days: int, today: date) -> list[Entry]:
    """Those that nobody has confirmed for more than `days`: a topic is as old as its newest entry."""
    gone = []
    for group in topics(entries):
        newest = max((entry.day or today for entry in group), default=today)
        if (today - newest).days > days:
            gone += [entry for entry in group if not entry.confirmed]
    return gone


def pushed_out(entries: Sequence[Entry], limit: int = LIMIT) -> list[Entry]:
    """Those that are too many: the oldest unconfirmed ones, then the oldest; the newest of all stays."""
    alone = {group[0].start for group in topics(entries) if len(group) == 1 and not group[0].confirmed}
    ages = sorted(entries[:-1], key=lambda entry: (entry.start not in alone, entry.day or date.max, entry.start))
    return ages[: max(0, len(entries) - limit)]


def _end(rows: list[str], said: list[bool], start: int) -> int:
    """The line after an entry: the next entry or heading, or what stands unindented after a blank line."""
    end = start + 1
    for at in range(start + 1, len(rows)):
        row = rows[at]
        if said[at] and (_START.match(row) or heading(row)):
            break
        if row.strip():
            if not rows[at - 1].strip() and not row.startswith(("  ", "\t")):
                break
            end = at + 1
    return end


def _entry(rows: list[str], start: int, end: int) -> Entry:
    match = _START.match(rows[start])
    first = rows[start][match.end() if match else 0 :].strip()
    found = _DATE.match(first)
    day = _day(found[1]) if found else None
    if found and day:
        first = first[found.end() :]
    label = _LABEL.search(first)
    head, rest = (first[: label.start()], first[label.start() :]) if label else (first, "")
    topic, *parts = (part.strip() for part in head.split("·"))
    kind, session, confirmed = KINDS[0], "", False
    for part in parts:
        plain = _plain(part)
        if plain in KINDS:
            kind = plain
        elif plain == CONFIRMED:
            confirmed = True
        elif part and not session:
            session = part
    said = _fields(" ".join([rest, *(row.strip() for row in rows[start + 1 : end])]))
    text = "".join(rows[start:end]).rstrip("\r\n")
    return Entry(topic, kind, session, day, said["expected"], said["got"], said["where"], confirmed, text, start, end)


def _fields(body: str) -> dict[str, str]:
    """What the labels lead to; prose without a label is what came."""
    before, *pairs = _LABEL.split(" ".join(body.split()))
    fields = {"expected": "", "got": "", "where": ""}
    last = "got"
    for label, said in zip(pairs[::2], pairs[1::2], strict=True):
        name = label.casefold()
        if fields[name]:
            fields[last] = f"{fields[last]} {label}: {said}".strip()
        else:
            fields[name], last = said.strip(), name
    fields["got"] = " ".join(filter(None, (before.strip(" -*"), fields["got"])))
    return fields


def _plain(part: str) -> str:
    return "-".join(part.casefold().replace("_", " ").split())


def _day(text: str) -> date | None:
    with suppress(ValueError):
        return date.fromisoformat(text)
    return None
