"""`wiki ingest`: sources -> pages that cite them, read by a model a part at a time, each page in one transaction.

A part is a run of units (units.py) that fits the model. Its reply is bounded by a grammar made of what is there: the
categories of the tree, the units of the part (each cited at most once), words of the part that no trigger has. Page, index,
trigger and copy of the source follow by code (ingest_page.py, sources.py). Pages are written in the order of the sources;
what was read is in the log and never read again, so an ingest that was stopped goes on, and one that is done does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.sek import ingest_page
from nightschool.sek.counting import counter
from nightschool.sek.importer_read import Source
from nightschool.sek.ingest_page import Claim, Draft, Part
from nightschool.sek.lifecycle import Step
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.routing import parse, with_trigger
from nightschool.sek.sources import INGESTED, known, place, read_spans, unread
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import DEFAULT_CATEGORIES, ROUTING, Tree
from nightschool.sek.units import Unit, chunks, units
from nightschool.sek.work import Work, run

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.types import Completion, Message, Request

PART_TOKENS = 900
"""Tokens of a part: what is longer makes a page that says too little of it."""
REPLY_TOKENS = 600
TITLE, SUMMARY, SAYS = 60, 90, 120
"""Characters of what the model writes."""
MOST_CLAIMS, MOST_KEYWORDS = 5, 6
SYSTEM = (
    "You keep a wiki. Read the numbered paragraphs of a source and file what they say: a title, a category, a summary of "
    "one line, the claims that matter, each from one paragraph, and the keywords by which somebody would look for it."
)
AGAIN = "run the same command again: it goes on from there"
Write = Callable[[Part, Draft, int], str]
"""The text of a page within a budget of tokens."""


@dataclass(frozen=True, slots=True)
class Filed:
    """A page that was written, and the lines of the source that it came from."""

    path: str
    source: str
    first: int
    last: int


def pending(tree: Tree, sources: Sequence[Source]) -> list[Source]:
    """The sources that have not been read to their end."""
    spans = read_spans(tree, events_of(tree))
    return [source for source in sources if unread(units(source.text), spans.get(source.sha256, ()))]


def ingest(tree: Tree, sources: Sequence[Source], engine: Engine, now: Clock = utc_now) -> Iterator[Filed]:
    """Read what is unread of the sources, as many parts at once as the engine takes; each page as it is written."""
    from nightschool.engine.engine import drive

    parts = _parts(tree, sources, engine)
    counted = counter(cwd=tree.root)

    def write(part: Part, draft: Draft, budget: int) -> str:
        return ingest_page.page(part, draft, engine.model.alias, counted.count, budget)

    while group := list(islice(parts, max(engine.capacity(), 1))):
        taken = ingest_page.taken_by(tree.routing().triggers)
        offers = [ingest_page.terms(part.text, taken) for part in group]
        categories = tree.categories() or list(DEFAULT_CATEGORIES)
        agents = {str(n): ask(part, categories, offers[n]) for n, part in enumerate(group)}
        drafts: dict[int, Draft | None] = {}
        written = 0
        for name, draft in drive(engine, agents):
            drafts[int(name)] = draft
            while written in drafts:
                part, made, offered = group[written], drafts.pop(written), offers[written]
                if made is None:
                    what = f"the reply about {part.source.name}:{part.lines[0]} was cut off"
                    raise MachineProblem(what, AGAIN)
                yield from _file(tree, part, made, offered, write, now)
                written += 1


def ask(part: Part, categories: Sequence[str], offered: Sequence[str]) -> Generator[Request, Completion, Draft | None]:
    """What the model makes of a part; None if its reply is no whole one."""
    from nightschool.engine.types import Request, Sampling

    grammar = reply_grammar(part.units, categories, offered)
    completion = yield Request(messages(part.units), grammar, Sampling(max_tokens=min(grammar.limit, REPLY_TOKENS)))
    return _draft(part, json.loads(completion.text)) if completion.valid else None


def messages(found: Sequence[Unit]) -> tuple[Message, ...]:
    """The prompt: the words of the units, each with its number."""
    from nightschool.engine.types import Message

    shown = "\n\n".join(f"[{name}] {unit.quote}" for name, unit in _named(found).items())
    return Message("system", SYSTEM), Message("user", f"{shown}\n\nReply with one JSON object.")


def reply_grammar(found: Sequence[Unit], categories: Sequence[str], offered: Sequence[str]) -> Grammar:
    """What a reply may be."""
    from nightschool.engine import terms as t
    from nightschool.engine.grammar import Grammar

    claims = [t.obj({"from": t.choice([name]), "says": t.text(SAYS, 1)}) for name in _named(found)]
    fields = {
        "title": t.text(TITLE, 3),
        "category": t.choice(categories),
        "summary": t.text(SUMMARY, 1),
        "claims": t.distinct_objects(claims, 1, min(MOST_CLAIMS, len(claims))),
        "keywords": t.distinct(offered, 1, min(MOST_KEYWORDS, len(offered))),
    }
    return Grammar.build(t.obj(fields, optional=() if offered else ("keywords",)))


def _draft(part: Part, reply: dict[str, Any]) -> Draft:
    named = _named(part.units)
    claims = tuple(Claim(claim["says"], named[claim["from"]]) for claim in reply["claims"])
    return Draft(reply["title"], reply["category"], reply["summary"], claims, tuple(reply.get("keywords", ())))


def _named(found: Sequence[Unit]) -> dict[str, Unit]:
    return {f"p{n}": unit for n, unit in enumerate(found, start=1)}


def _parts(tree: Tree, sources: Sequence[Source], engine: Engine) -> Iterator[Part]:
    """What is unread, in parts that fit the model."""
    log = events_of(tree)
    spans = read_spans(tree, log)
    most = engine.model.context - REPLY_TOKENS
    wanted = min(most, engine.count(messages(())) + PART_TOKENS)
    for source in known(sources, log):
        for rest in unread(units(source.text), spans.get(source.sha256, ())):
            try:
                for chunk in chunks(rest, lambda found: engine.count(messages(found)), wanted, most):
                    yield Part(source, chunk)
            except ValueError as error:
                what = f"{source.name}: {error} for {engine.model.alias}, which takes {engine.model.context} tokens"
                raise Problem(what, "use a model with a longer context") from None


def _file(tree: Tree, part: Part, draft: Draft, offered: Sequence[str], write: Write, now: Clock) -> list[Filed]:
    """Write the page, and say which; none if another ingest has read this part meanwhile."""
    made: list[Filed] = []
    (start, end), (first, last), source = part.span, part.lines, part.source

    def act(work: Work, at: datetime) -> None:
        made.clear()
        spans = read_spans(work.tree, events_of(work.tree)).get(source.sha256, ())
        if any(a < end and start < b for a, b in spans):
            return
        where = ingest_page.path(draft, part, work.tree.pages())
        table = work.text(ROUTING) or ""
        routing = parse(table)
        trigger = ingest_page.trigger(draft, where, offered, routing.triggers)
        files = {where: write(part, draft, routing.budget), **_kept(work, source)}
        if trigger is not None:
            files[ROUTING] = with_trigger(table, trigger)
        data = {"source": place(source), "name": source.name, "sha256": source.sha256}
        told = {**data, "span": [start, end], "lines": [first, last], "page": where}
        work.add(Step(files, (Event(INGESTED, stamp(at), None, told),)))
        made.append(Filed(where, source.name, first, last))

    run(tree, act, now)
    return made


def _kept(work: Work, source: Source) -> dict[str, str]:
    """The copy of the source, if it is not there yet; one that differs is never written over."""
    where = place(source)
    if work.text(where) is None:
        return {where: source.raw.decode()}
    if work.tree.read_bytes(where) != source.raw:
        raise Problem(f"{where} is not what was ingested", "restore it from git, or remove it")
    return {}
