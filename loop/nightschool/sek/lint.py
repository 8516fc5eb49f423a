"""`sek lint`: what is wrong with a tree, where, why it matters and what mends it; and the mending of what is safe.

The checks are in lint_pages, lint_routing, lint_rules and lint_secrets. `fix` makes the safe changes in one transaction: the
routing table and the indexes, never a page's words. `candidate` checks a page that is about to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nightschool.disk.errors import Problem
from nightschool.sek import lint_pages, lint_routing, lint_rules, rules
from nightschool.sek.lint_base import Finding, Fix, ordered
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.tree import Tree

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine

__all__ = ["Finding", "Fix", "candidate", "errors", "fix", "run"]
ROUNDS = 3
"""A fix may bring up what another can mend (a page that is an orphan once a trigger is gone)."""


def run(tree: Tree, count: Callable[[str], int], engine: Engine | None = None) -> tuple[Finding, ...]:
    """Every finding, errors first. With an engine, rules that are alike are checked for contradictions by its model."""
    tree = Tree(tree.root)
    found = [finding for path in tree.pages() for finding in lint_pages.page(tree, path)]
    try:
        tree.routing()
    except Problem as problem:
        return ordered([*found, lint_routing.broken(problem)])
    found += lint_pages.core(tree, count)
    found += lint_routing.routing(tree)
    found += lint_routing.indexes(tree, count)
    readable = not any(finding.code == "unreadable" for finding in found)
    if readable:
        found += lint_rules.check(tree, engine)
    return ordered(found)


def fix(tree: Tree, count: Callable[[str], int], now: Clock = utc_now) -> list[Finding]:
    """Make the changes that are safe, and return what they mended."""
    from nightschool.sek.transaction import commit, writing

    mended: list[Finding] = []
    with writing(tree) as current:
        for _ in range(ROUNDS):
            todo = [finding for finding in run(current, count) if finding.fix]
            files = _fixed(current, todo)
            if not files:
                break
            data = {"findings": [{"at": each.place, "code": each.code, "message": each.message} for each in todo]}
            commit(current, files, [Event("lint-fixed", stamp(now()), None, data)])
            mended += todo
            current = Tree(current.root)
    return mended


def candidate(tree: Tree, path: str, text: str) -> tuple[Finding, ...]:
    """What is wrong with the text of a page that is about to be written; an error speaks against writing it."""
    found = list(lint_pages.content(tree, path, text))
    for rule in rules.find(text, path):
        found += lint_rules.reasons(rule, imported=False)
    return ordered(found)


def errors(findings: Sequence[Finding]) -> int:
    """How many findings fail a run."""
    return sum(finding.level == "error" for finding in findings)


def _fixed(tree: Tree, findings: Sequence[Finding]) -> dict[str, bytes | None]:
    """The files as the fixes make them, one after the other."""
    texts: dict[str, str] = {}
    for finding in findings:
        if finding.fix is not None:
            path = finding.fix.path
            before = texts[path] if path in texts else tree.read(path) if tree.has(path) else ""
            texts[path] = finding.fix.edit(before)
    changed = {path: text.encode() for path, text in texts.items() if not tree.has(path) or tree.read(path) != text}
    return dict(changed)
