"""Looking at the life of knowledge without changing anything: status, the history of a rule, the search for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from nightschool.disk.errors import Problem, nearest
from nightschool.sek import bootstrap, inbox, lifecycle, record, rules
from nightschool.sek.record import Clock, Event, Use, utc_now
from nightschool.sek.rules import Rule
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import INBOX, USAGE, Tree
from nightschool.sek.words import signature
from nightschool.sek.work import core_tags, l0

FOUND = 10
"""Rules that a search shows."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A topic in the inbox."""

    topic: str
    kind: str
    entries: int
    sessions: int
    expires: str | None
    """The first day on which it is gone; None if it is confirmed."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A rule and how it stands."""

    tag: str
    stage: str
    path: str | None
    line: int | None
    title: str
    sessions: int
    """Sessions in which it was given out within the last month."""
    new: bool


@dataclass(frozen=True, slots=True)
class Tax:
    """Tokens that every session pays, whatever it is about."""

    l0: int
    budget: int
    always: int
    estimated: bool


@dataclass(frozen=True, slots=True)
class Status:
    """All of it."""

    drafts: tuple[Draft, ...]
    limit: int
    rules: tuple[Standing, ...]
    tombstones: tuple[str, ...]
    suggestions: tuple[str, ...]
    tax: Tax

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that a search found."""

    tag: str
    path: str
    line: int
    title: str
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Life:
    """All that is known of one tag."""

    tag: str
    stage: str
    """draft, validated, core, revoked or gone."""
    rule: Rule | None
    events: tuple[Event, ...]
    uses: tuple[Use, ...]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        told = {"tag": self.tag, "stage": self.stage, "rule": asdict(self.rule) if self.rule else None}
        return {**told, "events": [found.record() for found in self.events], "uses": [asdict(use) for use in self.uses]}


def status(tree: Tree, now: Clock = utc_now) -> Status:
    """The inbox, the rules by stage, what they cost, and what is suggested."""
    at = now()
    log, uses = events_of(tree), record.read_usage(tree.inside(USAGE))
    standing = _standing(tree, log, uses, at)
    core = {rule.tag for rule in standing if rule.stage == "core"}
    there = {rule.tag for rule in standing} - core
    return Status(
        _drafts(tree, at),
        inbox.LIMIT,
        tuple(standing),
        tuple(dict.fromkeys(stone.tag for stone in lifecycle.tombstones(log))),
        tuple(tag for tag in lifecycle.suggested(uses, log, at) if tag in there),
        _tax(tree),
    )


def history(tree: Tree, tag: str) -> Life:
    """A rule's whole life, from its first draft; a Problem for a tag that was never there."""
    wanted = rules.check_tag(tag)
    log = events_of(tree)
    events = record.history(log, wanted)
    uses = [use for use in record.read_usage(tree.inside(USAGE)) if use.tag == wanted]
    found = [rule for rule in rules.every(tree) if rule.tag == wanted]
    core = wanted in core_tags(tree)
    if not events and not uses and not found and not core:
        known = {rule.tag for rule in rules.every(tree)} | {str(event.tag) for event in log if event.tag}
        raise Problem(f"no rule ever had the tag [{wanted}]", nearest(wanted, known))
    revoked = any(event.kind == "revoked" for event in events)
    stage = "core" if core else "validated" if found else "revoked" if revoked else "gone"
    return Life(wanted, stage, found[0] if found else None, tuple(events), tuple(uses))


def search(tree: Tree, text: str) -> list[Hit]:
    """The rules with that tag, or that say something like it; the best first."""
    plain = text.strip().removeprefix("[").removesuffix("]").upper()
    wanted = signature(text)
    hits = []
    for rule in rules.every(tree):
        said = signature(rule.essence)
        common = len(wanted & said) / len(wanted) if wanted else 0.0
        score = 1.0 + common if rule.tag == plain or rule.tag.startswith(f"{plain}-") else common
        if score > 0:
            hits.append(Hit(rule.tag, rule.path, rule.line, rule.title, round(score, 3), rule.text))
    return sorted(hits, key=lambda hit: (-hit.score, hit.tag, hit.path))[:FOUND]


def _drafts(tree: Tree, at: datetime) -> tuple[Draft, ...]:
    entries = inbox.parse(tree.read(INBOX)) if tree.has(INBOX) else ()
    days = tree.routing().expire_days
    drafts = []
    for group in inbox.topics(entries):
        newest = max((entry.day or at.date() for entry in group), default=at.date())
        kept = all(entry.confirmed for entry in group)
        gone = None if kept else (newest + timedelta(days=days + 1)).isoformat()
        drafts.append(Draft(group[0].topic, group[0].kind, len(group), inbox.sessions(group), gone))
    return tuple(drafts)


def _standing(tree: Tree, log: Sequence[Event], uses: Sequence[Use], at: datetime) -> list[Standing]:
    since = record.stamp(at - lifecycle.MONTH)
    critical = {found.tag: found for found in bootstrap.critical(l0(tree)) if found.tag}
    sessions = {(use.tag, use.session) for use in uses if use.time >= since}
    counts: dict[str, int] = {}
    for tag, _ in sessions:
        counts[tag] = counts.get(tag, 0) + 1
    rows = []
    for rule in rules.every(tree):
        stage = "core" if rule.tag in critical else "validated"
        new = lifecycle.is_new(rule.tag, log, at)
        rows.append(Standing(rule.tag, stage, rule.path, rule.line, rule.title, counts.get(rule.tag, 0), new))
    bare = critical.keys() - {row.tag for row in rows}
    rows += [
        Standing(tag, "core", None, None, _title(tag, critical[tag].text), counts.get(tag, 0), False) for tag in bare
    ]
    return sorted(rows, key=lambda row: (row.stage, row.tag, row.path or ""))


def _title(tag: str, text: str) -> str:
    return Rule(tag, "", text, 0, 1).title


def _tax(tree: Tree) -> Tax:
    from nightschool.sek.counting import counter

    counts, table = counter(), tree.routing()
    pages = dict.fromkeys(path for trigger in table.triggers if trigger.always for path in trigger.load)
    always = sum(counts.count(tree.read(path)) for path in pages if tree.has(path))
    return Tax(counts.count(l0(tree)), table.l0_budget, always, counts.estimated)
