"""What a night hands to the SEK tree that its workspace is: a pattern that three tasks have cited becomes a rule.

The pattern page is the draft and stays the source: the rule holds its fix in one line and a link to it, never a copy, in a
page of its own, `wiki/rules/PATTERN.md`, and a trigger marked `by: night` leads there. Rules follow their patterns from
night to night as long as nobody has edited them; what a person wrote, or revoked, is left alone. Promoting twice changes
nothing. A workspace that is no SEK tree stays as it is. The night writes no draft into `memory/inbox.md`; old ones leave it.

    ## [TAG] the pattern's name

    Fix: ...
    Root cause: ...

    Evidence: 3 tasks, [pattern](../patterns/PATTERN.md)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.loop import wiki
from nightschool.loop.excerpts import one_line
from nightschool.loop.wiki import Page
from nightschool.sek import commands, lifecycle, lint, rules
from nightschool.sek.lifecycle import Known, Step
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.routing import Trigger, parse, with_trigger
from nightschool.sek.tree import ROUTING, Tree
from nightschool.sek.work import Work, run

TASKS = 3
"""A pattern that so many distinct tasks have cited is no coincidence."""
BY = "night"
LINE = 200
"""Characters of a fix or a root cause in a rule; the page has all of it."""


def promote(root: Path, now: Clock = utc_now) -> tuple[str, ...]:
    """Bring the rules of the tree at `root` in step with its pattern pages; what was done, a line each.

    A tree that a person has left in disorder costs a night nothing: the line says what is wrong, and the next night tries
    again. A failing machine (MachineProblem) stops it.
    """
    try:
        return _promoted(Tree(root), now)
    except MachineProblem:
        raise
    except Problem as problem:
        return (f"no pattern became a rule: {problem.what}; {problem.advice}",)


def tasks(page: Page) -> frozenset[str]:
    """The distinct tasks of the traces that a pattern page cites."""
    return frozenset(trace.rsplit("/", 1)[-1] for trace in page.evidence)


def render(tag: str, page: Page) -> str:
    """The rule of a pattern."""
    parts = {"Fix": page.part("Fix"), "Root cause": page.part("Root cause")}
    said = "".join(f"{name}: {one_line(_flat(text), LINE)}\n" for name, text in parts.items() if text.strip())
    count = len(tasks(page))
    return f"## [{tag}] {_topic(page)}\n\n{said}\nEvidence: {count} tasks, [{page.id}](../patterns/{page.id}.md)\n"


def _promoted(tree: Tree, now: Clock) -> tuple[str, ...]:
    if not tree.exists():
        return ()
    expired = commands.expire(tree, now).messages
    pages = [page for page in wiki.load(tree.root / "wiki").pages if len(tasks(page)) >= TASKS]

    def act(work: Work, moment: datetime) -> None:
        known = work.known()
        for page in pages:
            step = _checked(work.tree, _step(page, known, moment))
            work.add(step)
            known = _after(known, step)

    return expired + (run(tree, act, now).messages if pages else ())


def _step(page: Page, known: Known, now: datetime) -> Step:
    """What has to change for one pattern, which may be nothing."""
    mine = [event for event in known.log if event.data.get("pattern") == page.id]
    if mine:
        return _followed(page, mine[-1], known, now)
    if twin := rules.same(rules.essence(render("A-1", page)), known.rules):
        data = {"pattern": page.id, "path": twin.path}
        said = f"Already known: [{twin.tag}] in {twin.path} says what {page.path} says"
        return Step({}, (Event("known-already", stamp(now), twin.tag, data),), (said,))
    tag = rules.new_tag(_topic(page), "PATTERN", known.taken)
    path = next(name for name in _names(page.id) if known.page(name) is None)
    block = render(tag, page)
    files = {path: block, ROUTING: _routed(known.routing, page, path)}
    data = {"path": path, "text": block, "pattern": page.id, "topic": _topic(page)}
    return Step(files, (Event("promoted", stamp(now), tag, data),), (f"📚 Promoted: [{tag}] -> {path}",))


def _checked(tree: Tree, step: Step) -> Step:
    """The step, unless the linter speaks against what it would write (a secret in a fix, say)."""
    for path, text in step.files.items():
        if path != ROUTING and text and lint.errors(found := lint.candidate(tree, path, text)):
            return Step(messages=(f"not promoted: {path}: {found[0].message}",))
    return step


def _after(known: Known, step: Step) -> Known:
    """What is known once a step is done, without reading the tree again."""
    added = [rule for path, text in step.files.items() if text and path != ROUTING for rule in rules.find(text, path)]
    return replace(
        known,
        rules=[*known.rules, *added],
        log=[*known.log, *step.events],
        routing=step.files.get(ROUTING) or known.routing,
        taken=known.taken | {rule.tag for rule in added},
    )


def _followed(page: Page, last: Event, known: Known, now: datetime) -> Step:
    """A rule that is the night's own, untouched, follows its pattern; any other stands as it is."""
    path, text, tag = str(last.data["path"]), last.data.get("text"), str(last.tag)
    fresh = render(tag, page)
    if text is None or known.page(path) != text or fresh == text:
        return Step()
    data = {"path": path, "text": fresh, "pattern": page.id, "before": text}
    said = f"Updated: [{tag}] in {path} follows {page.path}"
    return Step({path: fresh}, (Event("updated", stamp(now), tag, data),), (said,))


def _routed(text: str, page: Page, path: str) -> str:
    """The routing table with the night's trigger for a rule; no trigger of anybody else is changed."""
    taken = {trigger.id for trigger in parse(text).triggers}
    name = next(each for each in _ids(page.id) if each not in taken)
    return with_trigger(text, Trigger(name, lifecycle.keywords(_topic(page)), (path,), by=BY))


def _topic(page: Page) -> str:
    return page.id.replace("-", " ")


def _names(identity: str) -> Iterator[str]:
    return (f"wiki/rules/{name}.md" for name in _ids(identity))


def _ids(identity: str) -> Iterator[str]:
    """The id itself, then with numbers."""
    yield identity
    yield from (f"{identity}-{n}" for n in range(2, 10_000))


def _flat(text: str) -> str:
    """List items as one text."""
    return " ".join(line.strip().removeprefix("- ") for line in text.splitlines())
