"""One operation on a tree: what it has read, what it means to write, and the transaction that does it.

If somebody edits one of the files by hand in this very moment, the operation begins again. Pages that come or go take the
index with them; the router's term cache follows after the transaction, for it may be lost at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.sek import bootstrap, rules
from nightschool.sek.lifecycle import Known, Step
from nightschool.sek.record import Clock, Event, utc_now
from nightschool.sek.transaction import Changed, commit, events_of, writing
from nightschool.sek.tree import ROUTING, WIKI, Tree

ATTEMPTS = 3
LONG = 4_000
"""Characters of an index past which an estimate tells well enough that it is too long."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command: lines for people and agents, and the same as data."""

    messages: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"messages": list(self.messages), "events": [found.record() for found in self.events]}


@dataclass(slots=True)
class Work:
    """What one operation has read and means to write."""

    tree: Tree
    step: Step = field(default_factory=Step)
    seen: dict[str, bytes | None] = field(default_factory=dict)

    def text(self, path: str) -> str | None:
        """A file as it will be, without a byte order mark; None if it is not there."""
        if path in self.step.files:
            return self.step.files[path]
        raw = self.seen[path] = self.tree.read_bytes(path) if self.tree.has(path) else None
        return None if raw is None else self.tree.read(path)

    def add(self, step: Step) -> None:
        """Mean this too."""
        self.step = self.step.then(step)

    def known(self) -> Known:
        """What a promotion or a revocation has to know."""
        found = rules.every(self.tree)
        log = events_of(self.tree)
        taken = {rule.tag for rule in found} | {str(event.tag) for event in log if event.tag}
        taken |= {tag for rule in found for _, tag in rules.mentions(rule.text)}
        taken |= {tag for _, tag in rules.mentions(l0(self.tree))}
        return Known(found, log, self.text(ROUTING) or "", self.text, frozenset(taken))

    def commit(self) -> Done:
        """Do it."""
        if not self.step.files and not self.step.events:
            return Done(self.step.messages)
        files = {path: self._bytes(path, text) for path, text in self.step.files.items()}
        paged = any(path.startswith(f"{WIKI}/") for path in files)
        if paged:
            files |= _indexes(self.tree, files)
        events = commit(self.tree, files, self.step.events, self.seen)
        if paged:
            _cached(Tree(self.tree.root))
        return Done(self.step.messages, tuple(events))

    def _bytes(self, path: str, text: str | None) -> bytes | None:
        mark = b"\xef\xbb\xbf" if (self.seen.get(path) or b"").startswith(b"\xef\xbb\xbf") else b""
        return None if text is None else mark + text.encode()


def l0(tree: Tree) -> str:
    """The text of L0; empty if there is none."""
    path = tree.routing().bootstrap
    return tree.read(path) if tree.has(path) else ""


def core_tags(tree: Tree) -> frozenset[str]:
    """The tags of the critical rules."""
    return frozenset(found.tag for found in bootstrap.critical(l0(tree)) if found.tag)


def run(tree: Tree, act: Callable[[Work, datetime], None], now: Clock = utc_now) -> Done:
    """One operation as one transaction."""
    for attempt in range(ATTEMPTS):
        with writing(tree) as fresh:
            work = Work(fresh)
            act(work, now())
            try:
                return work.commit()
            except Changed:
                if attempt == ATTEMPTS - 1:
                    raise
    raise AssertionError("unreachable")


def _indexes(tree: Tree, files: Mapping[str, bytes | None]) -> Mapping[str, bytes]:
    """The index files as they must be once `files` are written."""
    from nightschool.sek.counting import counter, estimate
    from nightschool.sek.index import outdated

    tokens = counter().count
    return outdated(tree.changed(files), lambda text: estimate(text) if len(text) > LONG else tokens(text))


def _cached(tree: Tree) -> None:
    """Bring the router's cache in step with the pages."""
    from nightschool.sek.counting import counter
    from nightschool.sek.router import Router

    with suppress(Problem):
        counts = counter()
        Router.load(tree, counts).index.save(tree, counts)
