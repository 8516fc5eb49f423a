"""The life of knowledge: draft -> validated -> core, and out again. Pure: what is known and the time in, a step out.

- A draft enters the inbox; it expires, is pushed out by the 21st, or
- its topic comes up in two sessions, or three times: then it is promoted to a rule, unless a rule says it already or its
  text was revoked once (a tombstone). The drafts leave the inbox in the same step.
- A rule given out in five sessions within 30 days is suggested for core; a refusal sets the count back.
- A revoked rule goes everywhere; its text stays in the log.

Messages are what the agent and the person are told. Who reads and writes is commands.py; who may say yes, core.py.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nightschool.sek import inbox, rules
from nightschool.sek.inbox import Entry
from nightschool.sek.record import Event, Use, moment, stamp
from nightschool.sek.routing import Trigger, parse, with_trigger, without_page
from nightschool.sek.rules import Rule
from nightschool.sek.tree import INBOX, ROUTING
from nightschool.sek.words import content, words

SESSIONS, ENTRIES = 2, 3
"""From so many sessions, or so many entries, a topic is a pattern and no coincidence."""
NEW = timedelta(days=7)
MONTH = timedelta(days=30)
OFTEN = 5
"""Sessions in a month from which on a rule is suggested for core."""
BY = "sek"
"""Who writes the triggers of promoted rules."""


@dataclass(frozen=True, slots=True)
class Step:
    """What changes: whole files (None: removed), what is recorded, what is said."""

    files: Mapping[str, str | None] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    messages: tuple[str, ...] = ()

    def then(self, other: Step) -> Step:
        """Both, one after the other."""
        return Step({**self.files, **other.files}, self.events + other.events, self.messages + other.messages)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A rule that was revoked: the same text is not promoted again."""

    tag: str
    time: str
    reason: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What a promotion has to know of the tree."""

    rules: Sequence[Rule]
    log: Sequence[Event]
    routing: str
    page: Callable[[str], str | None]
    """The text of a page, or None."""
    taken: frozenset[str]
    """Every tag that stands anywhere."""


def expire(text: str, days: int, now: datetime) -> Step:
    """Drafts older than `days` that nobody has confirmed leave the inbox; those by hand get their date."""
    text_now = inbox.dated(text, now.date())
    gone = inbox.expired(inbox.parse(text_now), days, now.date())
    said = tuple(f"Expired after {days} days: {entry.topic}" for entry in gone)
    left = inbox.removed(text_now, gone)
    return Step({INBOX: left} if left != text else {}, tuple(_gone("expired", entry, now) for entry in gone), said)


def push_out(text: str, now: datetime) -> Step:
    """Of more than 20 drafts the oldest unconfirmed ones leave."""
    gone = inbox.pushed_out(inbox.parse(text))
    said = tuple(f"Pushed out of the full inbox: {entry.topic} (its text is in memory/log.jsonl)" for entry in gone)
    files = {INBOX: inbox.removed(text, gone)} if gone else {}
    return Step(files, tuple(_gone("pushed-out", entry, now) for entry in gone), said)


def register(text: str, entry: Entry, now: datetime) -> Step:
    """A draft enters the inbox."""
    data = {"topic": entry.topic, "entry": entry.text, "session": entry.session}
    said = f"Registered: {entry.topic} ({entry.kind})"
    return Step({INBOX: inbox.added(text, entry)}, (Event("registered", stamp(now), None, data),), (said,))


def is_ripe(entries: Sequence[Entry]) -> bool:
    """Whether the entries of a topic make it a rule."""
    return inbox.sessions(entries) >= SESSIONS or len(entries) >= ENTRIES


def unripe(entries: Sequence[Entry]) -> str:
    """Why they do not yet."""
    count = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} from {inbox.sessions(entries)} session"
    return f"Not promoted yet: {entries[0].topic}: {count}; it takes {SESSIONS} sessions or {ENTRIES} entries"


def tombstones(log: Sequence[Event]) -> list[Tombstone]:
    """Every rule that was revoked."""
    return [
        Tombstone(str(found.tag), found.time, str(found.data.get("reason", "")), _texts(found))
        for found in log
        if found.kind == "revoked"
    ]


def promote(text: str, entries: Sequence[Entry], known: Known, now: datetime, tag: str | None = None) -> Step:
    """The drafts of one topic become a rule and leave the inbox; or the step says why not."""
    essence = " ".join(dict.fromkeys(entry.essence for entry in entries))
    said = [essence, *(entry.essence for entry in entries)]
    texts = [entry.text for entry in entries]
    if rule := next(filter(None, (rules.same(each, known.rules) for each in said)), None):
        data = {"path": rule.path, "entries": texts, "topic": entries[0].topic}
        message = f"Already known: [{rule.tag}] in {rule.path}:{rule.line} says so; nothing was written twice"
        return Step(
            {INBOX: inbox.removed(text, entries)}, (Event("known-already", stamp(now), rule.tag, data),), (message,)
        )
    if stone := next(filter(None, (_buried(each, tombstones(known.log)) for each in said)), None):
        reason = f": {stone.reason}" if stone.reason else ""
        message = f"Not promoted: [{stone.tag}] said so and was revoked on {stone.time[:10]}{reason}"
        return withheld(entries, message, known, now, stone.tag)
    references = sum(entry.kind == "undocumented-api" for entry in entries) * 2 >= len(entries)
    tag = tag or rules.new_tag(entries[0].topic, "REF" if references else "RULE", known.taken)
    path = f"wiki/{'references' if references else 'rules'}/{slug(entries[0].topic, tag)}.md"
    block = rules.render(tag, entries)
    routing = _routed(known.routing, path, entries[0].topic)
    files = {path: rules.added(known.page(path) or "", block), ROUTING: routing, INBOX: inbox.removed(text, entries)}
    data = {"path": path, "text": block, "entries": texts, "topic": entries[0].topic}
    return Step(files, (Event("promoted", stamp(now), tag, data),), (f"📚 Promoted: [{tag}] -> {path}",))


def withheld(entries: Sequence[Entry], message: str, known: Known, now: datetime, tag: str | None = None) -> Step:
    """The drafts stay in the inbox, where they expire; recorded once for the same drafts."""
    data = {"topic": entries[0].topic, "entries": [entry.text for entry in entries]}
    if any(found.kind == "withheld" and found.data.get("entries") == data["entries"] for found in known.log):
        return Step(messages=(message,))
    return Step({}, (Event("withheld", stamp(now), tag, data),), (message,))


def revoke(
    tag: str, found: Sequence[Rule], known: Known, reason: str, now: datetime, critical: Sequence[str] = ()
) -> Step:
    """A rule leaves every page it stands in; pages that are empty then leave the routing table too."""
    files: dict[str, str | None] = {}
    routing = known.routing
    kept = []
    for path in dict.fromkeys(rule.path for rule in found):
        page = known.page(path) or ""
        here = {rule.leads for rule in found if rule.path == path}
        standing = [rule for rule in rules.find(page, path) if rule.tag == tag and rule.leads in here]
        left = rules.removed(page, standing)
        files[path] = left or None
        kept.append({"path": path, "text": "\n".join(rule.text for rule in standing)})
        if not left:
            kept[-1]["page"] = page
            routing = without_page(routing, path)
    if routing != known.routing:
        files[ROUTING] = routing
    data = {"reason": reason, "texts": kept, **({"critical": list(critical)} if critical else {})}
    where = ", ".join(dict.fromkeys(rule.path for rule in found)) or "the critical rules"
    message = f"Revoked: [{tag}] from {where}; its text is kept in memory/log.jsonl"
    return Step(files, (Event("revoked", stamp(now), tag, data),), (message,))


def is_new(tag: str, log: Sequence[Event], now: datetime) -> bool:
    """Whether a rule was promoted less than a week ago."""
    return any(
        found.kind == "promoted" and found.tag == tag and now - moment(found.time) < NEW for found in reversed(log)
    )


def suggested(uses: Sequence[Use], log: Sequence[Event], now: datetime) -> list[str]:
    """The tags that were given out in five sessions within a month, since they were last refused."""
    sessions: dict[str, set[str]] = {}
    refused = {found.tag: found.time for found in log if found.kind in ("declined", "revoked")}
    since = stamp(now - MONTH)
    for use in uses:
        if since <= use.time and refused.get(use.tag, "") < use.time:
            sessions.setdefault(use.tag, set()).add(use.session)
    return sorted(tag for tag, found in sessions.items() if len(found) >= OFTEN)


def slug(topic: str, tag: str) -> str:
    """The name of a page for a topic: its words, in any script."""
    plain = unicodedata.normalize("NFKC", topic).casefold()
    name = "-".join(re.findall(r"[^\W_]+", plain))
    while len(name.encode()) > 60:
        name = name.rpartition("-")[0] or name[:-1]
    return name or tag.casefold()


def keywords(topic: str) -> tuple[str, ...]:
    """What a topic is routed by: the whole of it, its neighbouring pairs of words, and identifiers in it."""
    parts = re.findall(r"[^\s,;:()\"'`]+", topic)
    telling = [part for part in parts if content(part) and any(char.isalnum() for char in part)]
    pairs = [f"{a} {b}" for a, b in itertools.pairwise(telling) if f"{a} {b}" in " ".join(parts)]
    names = [part for part in telling if len(words(part)) > 1]
    whole = " ".join(parts)
    safe = (word.replace("\\", " ").strip("-.*#>") for word in [whole, *names, *pairs[:4]])
    return tuple(dict.fromkeys(word for word in safe if any(char.isalnum() for char in word)))


def _routed(text: str, path: str, topic: str) -> str:
    """The routing table with a trigger for a page, unless one leads there."""
    table = parse(text)
    if any(path in trigger.load for trigger in table.triggers):
        return text
    taken = {trigger.id for trigger in table.triggers}
    name = slug(topic, "rule")[:56].strip("-")
    free = next(each for n in range(1, 10_000) if (each := name if n == 1 else f"{name}-{n}") not in taken)
    mine = {word.casefold() for trigger in table.triggers for word in trigger.keywords}
    found = keywords(topic)
    own = tuple(word for word in found if word.casefold() not in mine) or found
    return with_trigger(text, Trigger(free, own, (path,), by=BY))


def _buried(text: str, stones: Sequence[Tombstone]) -> Tombstone | None:
    """The tombstone of a rule that said the same."""
    pairs = [(stone, Rule(stone.tag, "", each, 0, 0)) for stone in stones for each in stone.texts]
    hit = rules.same(text, [rule for _, rule in pairs])
    return next((stone for stone, rule in pairs if rule is hit), None) if hit else None


def _texts(found: Event) -> tuple[str, ...]:
    kept = found.data.get("texts", ())
    texts = [str(each.get("text", "")) for each in kept if isinstance(each, Mapping)]
    return tuple(texts + [str(each) for each in found.data.get("critical", ())])


def _gone(kind: str, entry: Entry, now: datetime) -> Event:
    return Event(kind, stamp(now), None, {"topic": entry.topic, "entry": entry.text})
