"""The operations of the life cycle, each one transaction: what the command line, the MCP server and the hook call.

Each reads what it needs under the tree's lock (work.py), asks lifecycle.py what follows, and commits that. None of them
writes a rule into L0, or removes one there: that takes a person (core.py). Rules that are given out are recorded by `used`,
which says what is new. Looking without changing is views.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from nightschool.disk.errors import Problem, nearest
from nightschool.sek import inbox, lifecycle, record, rules
from nightschool.sek.inbox import Entry
from nightschool.sek.lifecycle import Known, Step
from nightschool.sek.prose import one_line
from nightschool.sek.record import Clock, Event, Use, stamp, utc_now
from nightschool.sek.rules import Rule
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import INBOX, ROUTING, USAGE, Tree
from nightschool.sek.triggers import EXPIRE_DAYS
from nightschool.sek.work import Done, Work, core_tags, run

NOT_CORE = "only a yes that a person types in a terminal removes it: nightschool sek revoke"


def register(
    tree: Tree,
    topic: str,
    kind: str,
    session: str,
    expected: str,
    got: str,
    where: str,
    now: Clock = utc_now,
) -> Done:
    """Draft an entry; whatever is ripe or old by now is promoted or goes."""
    inbox.draft(topic, kind, session, expected, got, where, now().date())  # what is wrong with it is said before a lock

    def act(work: Work, at: datetime) -> None:
        entry = inbox.draft(topic, kind, session, expected, got, where, at.date())
        try:
            days = work.tree.routing().expire_days
        except Problem as error:
            # A broken table must not lose what was learned; it is told, and promotion waits.
            work.add(lifecycle.register(work.text(INBOX) or "", entry, at))
            work.add(Step(messages=(f"Nothing is promoted for now: {error.what}: {error.advice}",)))
            return
        work.add(lifecycle.expire(work.text(INBOX) or "", days, at))
        work.add(lifecycle.register(work.text(INBOX) or "", entry, at))
        _promote_ripe(work, at, told=entry.topic)
        work.add(lifecycle.push_out(work.text(INBOX) or "", at))

    return run(tree, act, now)


def tidy(tree: Tree, now: Clock = utc_now) -> tuple[str, ...]:
    """Expire what is old, promote what is ripe (hand-written entries too), keep the limit; quick if nothing is due."""
    if not _is_due(tree, now()):
        return ()

    def act(work: Work, at: datetime) -> None:
        work.add(lifecycle.expire(work.text(INBOX) or "", work.tree.routing().expire_days, at))
        _promote_ripe(work, at)
        work.add(lifecycle.push_out(work.text(INBOX) or "", at))

    return run(tree, act, now).messages


def expire(tree: Tree, now: Clock = utc_now) -> Done:
    """Drafts that are too old leave the inbox."""

    def act(work: Work, at: datetime) -> None:
        work.add(lifecycle.expire(work.text(INBOX) or "", work.tree.routing().expire_days, at))

    return run(tree, act, now)


def promote(tree: Tree, topic: str | None = None, tag: str | None = None, now: Clock = utc_now) -> Done:
    """Promote every ripe topic, or the one named, under a tag of one's own if it is given."""
    wanted = rules.check_tag(tag) if tag else None
    if wanted and not topic:
        raise Problem("a tag without a topic", "name the topic that becomes this rule")

    def act(work: Work, at: datetime) -> None:
        if topic is None:
            _promote_ripe(work, at, all_told=True)
            return
        text = work.text(INBOX) or ""
        groups = inbox.topics(inbox.parse(text))
        group = next((each for each in groups if any(inbox.same_topic(topic, entry.topic) for entry in each)), None)
        if group is None:
            raise Problem(f"no draft has the topic {topic!r}", nearest(topic, [each[0].topic for each in groups]))
        if not lifecycle.is_ripe(group):
            work.add(Step(messages=(lifecycle.unripe(group),)))
            return
        known = work.known()
        if wanted in known.taken:
            raise Problem(f"the tag [{wanted}] is taken", f"nightschool sek history {wanted} tells by what")
        _promote(work, group, known, at, wanted)

    return run(tree, act, now)


def revoke(tree: Tree, tag: str, reason: str = "", now: Clock = utc_now) -> Done:
    """Remove a rule everywhere and keep its text in the log; a Problem for a critical rule, which takes a person."""
    wanted = rules.check_tag(tag)

    def act(work: Work, at: datetime) -> None:
        if wanted in core_tags(work.tree):
            raise Problem(f"[{wanted}] is a critical rule", NOT_CORE)
        work.add(revocation(work, wanted, reason, at))

    return run(tree, act, now)


def revocation(work: Work, tag: str, reason: str, at: datetime, critical: tuple[str, ...] = ()) -> Step:
    """The step that removes a rule; a Problem if there is none."""
    known = work.known()
    found = [rule for rule in known.rules if rule.tag == tag]
    if not found and not critical:
        raise Problem(f"no rule has the tag [{tag}]", nearest(tag, {rule.tag for rule in known.rules}))
    plain = one_line(reason, "the reason", inbox.LONGEST_TEXT)
    step = lifecycle.revoke(tag, found, known, plain, at, critical)
    others = sorted({rule.path for rule in known.rules if rule.tag != tag and f"[{tag}]" in rule.text})
    return step.then(Step(messages=tuple(f"Still mentioned in {path}" for path in others)))


def used(tree: Tree, tags: Iterable[str], session: str, now: Clock = utc_now) -> tuple[str, ...]:
    """Record that rules were given out in a session; the lines that announce new ones and suggest tried ones."""
    wanted = sorted(set(tags))
    source = one_line(session, "the session", 200)
    if not _unused(tree, wanted, source):
        return ()
    lines: list[str] = []

    def act(work: Work, at: datetime) -> None:
        path = work.tree.inside(USAGE)
        fresh = _unused(work.tree, wanted, source)
        before = record.read_usage(path)
        record.add_usage(path, [Use(tag, source, stamp(at)) for tag in fresh])
        log = events_of(work.tree)
        ever = {use.tag for use in before}
        lines.extend(
            f"🆕 Using recently promoted: [{tag}]"
            for tag in fresh
            if tag not in ever and lifecycle.is_new(tag, log, at)
        )
        due = [tag for tag in lifecycle.suggested(record.read_usage(path), log, at) if tag in fresh]
        core = core_tags(work.tree) if due else frozenset()
        for tag in due:
            if tag not in core and not _told(tag, log):
                work.add(Step(events=(Event("suggested", stamp(at), tag),)))
                lines.append(suggestion(tag))

    run(tree, act, now)
    return tuple(lines)


def suggestion(tag: str) -> str:
    """The question that only a person answers."""
    return (
        f"[{tag}] applied in {lifecycle.OFTEN}+ tasks a month: promote to Critical Rules? (nightschool sek core {tag})"
    )


def _promote_ripe(work: Work, at: datetime, told: str | None = None, all_told: bool = False) -> None:
    """Every ripe topic of the inbox; what is not promoted is said only of the topic `told`, or of all."""
    text = work.text(INBOX) or ""
    groups = inbox.topics(inbox.parse(text))
    ripe = [group for group in groups if lifecycle.is_ripe(group)]
    if all_told:
        work.add(Step(messages=tuple(lifecycle.unripe(group) for group in groups if group not in ripe)))
    if not ripe:
        return
    known = work.known()
    for group in ripe:
        tell = all_told or (told is not None and any(entry.topic == told for entry in group))
        known = _promote(work, group, known, at, None, tell)


def _promote(
    work: Work, group: tuple[Entry, ...], known: Known, at: datetime, tag: str | None, tell: bool = True
) -> Known:
    """One topic; what is known after it."""
    text = work.text(INBOX) or ""
    texts = [entry.text for entry in group]
    entries = [entry for entry in inbox.parse(text) if entry.text in texts]
    step = lifecycle.promote(text, entries, known, at, tag)
    if fault := _fault(work.tree, step):
        step = lifecycle.withheld(entries, f"Not promoted: {entries[0].topic}: {fault}", known, at)
    if step.files or step.events or tell:
        work.add(step)
    fresh: list[Rule] = list(known.rules)
    for event in step.events:
        if event.kind == "promoted":
            fresh += rules.find(str(event.data["text"]), str(event.data["path"]))
    taken = known.taken | {str(event.tag) for event in step.events}
    return Known(fresh, known.log, work.text(ROUTING) or "", work.text, taken)


def _fault(tree: Tree, step: Step) -> str:
    """What the linter has against the rules that a step would write; empty if nothing."""
    promoted = [event.data for event in step.events if event.kind == "promoted"]
    if not promoted:
        return ""
    from nightschool.sek.lint import candidate  # reads Markdown: only a promotion pays for it

    found = [finding for data in promoted for finding in candidate(tree, str(data["path"]), str(data["text"]))]
    return next((f"{finding.message}; {finding.advice}" for finding in found if finding.level == "error"), "")


def _is_due(tree: Tree, at: datetime) -> bool:
    """Whether the inbox has something that must be done now."""
    if not tree.has(INBOX):
        return False
    entries = inbox.parse(tree.read(INBOX))
    setting = re.search(
        r"^expire_days:\s*(\d+)", tree.read(ROUTING), re.M
    )  # the whole table is read only if it matters
    days = int(setting[1]) if setting else EXPIRE_DAYS
    ripe = [group for group in inbox.topics(entries) if lifecycle.is_ripe(group)]
    undated = any(entry.day is None for entry in entries)
    full = len(entries) > inbox.LIMIT
    return (
        undated or full or bool(inbox.expired(entries, days, at.date())) or any(not _held(tree, each) for each in ripe)
    )


def _held(tree: Tree, group: tuple[Entry, ...]) -> bool:
    """Whether this topic was already found to be withheld, with just these entries."""
    texts = [entry.text for entry in group]
    return any(found.kind == "withheld" and found.data.get("entries") == texts for found in events_of(tree))


def _unused(tree: Tree, tags: Iterable[str], session: str) -> list[str]:
    done = {(use.tag, use.session) for use in record.read_usage(tree.inside(USAGE))}
    return [tag for tag in tags if (tag, session) not in done]


def _told(tag: str, log: Iterable[Event]) -> bool:
    """Whether a suggestion was made, and not refused since."""
    last = [
        found.kind for found in log if found.tag == tag and found.kind in ("suggested", "declined", "core", "revoked")
    ]
    return bool(last) and last[-1] == "suggested"
