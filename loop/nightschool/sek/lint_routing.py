"""Checks of routing table and index: triggers that lead nowhere, pages that no trigger loads, keywords with two ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from nightschool.disk.errors import Problem
from nightschool.sek import importer_triggers, index
from nightschool.sek.lint_base import Finding, Fix
from nightschool.sek.routing import ALWAYS, Trigger, with_trigger, without_page
from nightschool.sek.tree import ROUTING, Tree
from nightschool.sek.words import phrase

BY = "lint"


def routing(tree: Tree) -> Iterator[Finding]:
    """Checks of the table itself."""
    triggers = tree.routing().triggers
    yield from _missing(tree, triggers)
    yield from _overlapping(triggers)
    yield from _orphans(tree, triggers)


def indexes(tree: Tree, count: Callable[[str], int]) -> Iterator[Finding]:
    """Index files that no longer say what is there."""
    for path, raw in index.outdated(tree, count).items():
        what = "the index is not up to date" if tree.has(path) else "the index is missing"
        why = "it is where an agent looks when no trigger fits"
        yield Finding(
            path, 1, "index", what, why, "nightschool sek index", "warning", Fix(path, partial(_become, raw.decode()))
        )


def broken(problem: Problem) -> Finding:
    """A table that cannot be read at all."""
    place, _, said = problem.what.partition(": ")
    line = place.rpartition(":")[2]
    number = int(line) if line.isdigit() else 1
    return Finding(ROUTING, number, "routing", said or problem.what, "nothing can be routed", problem.advice)


def _become(new: str, _: str) -> str:
    return new


def _missing(tree: Tree, triggers: Sequence[Trigger]) -> Iterator[Finding]:
    for trigger in triggers:
        for path in trigger.load:
            try:
                if tree.has(path):
                    continue
                what = f"the trigger {trigger.id!r} loads {path}, which is not there"
            except Problem as problem:
                what = f"the trigger {trigger.id!r}: {problem.what}"
            fix = Fix(ROUTING, partial(without_page, page=path))
            why = "a prompt that it matches gets nothing"
            yield Finding(
                ROUTING, trigger.line, "missing-page", what, why, f"take {path} out of its load", "error", fix
            )


def _overlapping(triggers: Sequence[Trigger]) -> Iterator[Finding]:
    """Keywords that two triggers have: both load, which is meant sometimes and costs always."""
    seen: dict[tuple[str, ...], Trigger] = {}
    for trigger in triggers:
        for keyword in trigger.keywords:
            key = phrase(keyword)
            first = seen.setdefault(key, trigger)
            if key and keyword != ALWAYS and first.id != trigger.id and set(first.load) != set(trigger.load):
                what = f"the keyword {keyword!r} is in {first.id!r} (line {first.line}) and in {trigger.id!r}"
                advice = "keep it in one, or let one trigger load both pages"
                why = "one word loads the pages of both"
                yield Finding(ROUTING, trigger.line, "overlap", what, why, advice, "warning")


def _orphans(tree: Tree, triggers: Sequence[Trigger]) -> Iterator[Finding]:
    loaded = {path for trigger in triggers for path in trigger.load}
    orphans = [path for path in tree.pages() if path not in loaded]
    if not orphans:
        return
    words = _keywords(tree, orphans)
    taken = {phrase(keyword) for trigger in triggers for keyword in trigger.keywords}
    names = {trigger.id for trigger in triggers}
    for path in orphans:
        free = tuple(word for word in words.get(path, ()) if phrase(word) not in taken)
        fix = None
        if free:
            stem = path.rsplit("/", 1)[-1].removesuffix(".md")[:50] or "page"
            name = next(each for each in (stem, *(f"{stem}-{n}" for n in range(2, 10_000))) if each not in names)
            names.add(name)
            trigger = Trigger(name, free, (path,), by=BY)
            fix = Fix(ROUTING, partial(with_trigger, trigger=trigger))
        what = "no trigger loads this page"
        why = "only its own words find it"
        yield Finding(path, 1, "orphan", what, why, "give it a trigger in wiki/_routing.md", "warning", fix)


def _keywords(tree: Tree, orphans: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Keywords for pages, seen beside all others."""
    topics = defaultdict(str)
    for path in tree.pages():
        try:
            topics[path] = tree.read(path)
        except Problem:
            continue
    found = importer_triggers.keywords([importer_triggers.Topic(path, (), text) for path, text in topics.items()])
    return {path: found[path] for path in orphans if path in found}
