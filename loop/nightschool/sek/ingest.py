"""`wiki ingest`: sources become pages, in wikiLLM's way: a model says what each piece is about, code does the rest.

Under a grammar the model chooses a title, a category of the tree, a summary, keywords out of the words that the piece has,
and claims, each of which cites a paragraph of the piece. Code copies what is cited, word for word, and writes page, trigger
(`by: ingest`) and index in one transaction a piece; the log says which pieces are done, so a killed ingest goes on, and
ingesting twice changes nothing.

A page, `wiki/CATEGORY/TITLE.md`:

    ---
    source: sources/NAME.HASH.md
    sha256: ...
    lines: 1-40
    model: ALIAS
    ---
    # Title

    Summary.

    - A claim.
      > What is cited (line 12).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightschool.disk import frontmatter
from nightschool.disk.errors import Problem
from nightschool.engine import terms as t
from nightschool.engine.engine import Engine, drive
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Completion, Message, Request, Sampling
from nightschool.sek import lint
from nightschool.sek.lifecycle import Step, slug
from nightschool.sek.prose import one_line
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.routing import Trigger, parse, with_trigger
from nightschool.sek.sources import Piece, Source, pieces
from nightschool.sek.stopwords import STOPWORDS
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import DEFAULT_CATEGORIES, ROUTING, Tree
from nightschool.sek.words import surfaces
from nightschool.sek.work import Work, run

BY = "ingest"
TITLE, SUMMARY, CLAIM = 60, 200, 160
MOST_CLAIMS, MOST_KEYWORDS = 6, 6
TERMS = 40
"""Words of a piece that may be its keywords."""
PIECE, REPLY = 1_200, 700
"""Tokens of a piece and of a reply, at most; a smaller context has smaller pieces."""
LEAST = 60
"""Tokens of a piece that is worth a reply."""
ATTEMPTS = 3
QUOTE = 400
"""Characters of a cited paragraph that a page holds."""
SYSTEM = (
    "You keep a wiki. You are given a piece of a source, its paragraphs numbered. You say what the page about it is called, "
    "which category it belongs to, what it says in one sentence, by which words people will ask for it, and what it claims, "
    "each claim with the number of the paragraph that says so."
)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one source: pages written, pieces that were known, and pieces of which the model made no page."""

    source: str
    pages: tuple[str, ...]
    known: int
    failed: tuple[str, ...]


def ingest(
    tree: Tree, source: Source, engine: Engine, *, now: Clock = utc_now, say: Callable[[str], None] = lambda text: None
) -> Done:
    """Make pages of what is new in a source. EngineError: what is done stays, and the next call goes on."""
    room = engine.model.context - REPLY - engine.count(_messages(""))
    if room < LEAST:
        raise Problem(
            f"{engine.model.alias} has a context of {engine.model.context} tokens", "ingest with a larger model"
        )
    every = pieces(source, lambda text: engine.count((Message("user", text),)), min(PIECE, room))
    done = {
        (event.data.get("sha256"), event.data.get("lines")) for event in events_of(tree) if event.kind == "ingested"
    }
    todo = {_lines(piece): piece for piece in every if (source.sha256, _lines(piece)) not in done}
    categories = tree.categories() or list(DEFAULT_CATEGORIES)
    pages, failed = [], []
    for name, reply in drive(engine, {name: ask(piece, categories) for name, piece in todo.items()}):
        if reply is None:
            failed.append(name)
            continue
        path = _write(tree, todo[name], reply, engine.model.alias, now)
        if path is None:
            failed.append(name)
            continue
        pages.append(path)
        say(f"{source.origin}:{name} -> {path}")
    return Done(source.path, tuple(sorted(pages)), len(every) - len(todo), tuple(failed))


def ask(piece: Piece, categories: Sequence[str]) -> Generator[Request, Completion, Mapping[str, Any] | None]:
    """Have a model say what a piece is about; None if it has no usable reply."""
    grammar = Grammar.build(reply_term(piece, categories))
    shown = "\n\n".join(f"[{n}] {each.text.strip()}" for n, each in enumerate(piece.paragraphs, start=1))
    for attempt in range(ATTEMPTS):
        drawn = Sampling(max_tokens=min(REPLY, grammar.limit), temperature=0.7 if attempt else 0.0, seed=attempt)
        completion = yield Request(_messages(shown), grammar, drawn)
        if completion.valid:
            reply: Mapping[str, Any] = json.loads(completion.text)
            return reply
    return None


def reply_term(piece: Piece, categories: Sequence[str]) -> t.Term:
    """What may be said of a piece: categories, keywords and citations that exist, none of them twice."""
    claims = [
        t.obj({"paragraph": t.const(number), "claim": t.text(CLAIM, 3)})
        for number in range(1, len(piece.paragraphs) + 1)
    ]
    return t.obj(
        {
            "title": t.text(TITLE, 3),
            "category": t.choice(sorted(categories)),
            "summary": t.text(SUMMARY, 3),
            "keywords": t.distinct(telling(piece.text), 1, MOST_KEYWORDS),
            "claims": t.distinct_objects(claims, 1, MOST_CLAIMS),
        }
    )


def telling(text: str) -> list[str]:
    """The words of a text that may be keywords: the commonest that carry a topic, as they are spelled."""
    spelled = surfaces(text)
    tally = Counter({word: text.casefold().count(form.casefold()) for word, form in spelled.items()})
    found = [spelled[word] for word, _ in tally.most_common() if word not in STOPWORDS and len(spelled[word]) > 1]
    usable = [word for word in dict.fromkeys(found) if any(char.isalpha() for char in word)]
    return usable[:TERMS] or ["page"]


def _messages(shown: str) -> tuple[Message, ...]:
    return Message("system", SYSTEM), Message("user", f"{shown}\n\nReply with one JSON object.")


def _write(tree: Tree, piece: Piece, reply: Mapping[str, Any], model: str, now: Clock) -> str | None:
    """One transaction: source, page, trigger, index, log; None if the linter speaks against the page (a secret in it)."""
    written: list[str] = []

    def act(work: Work, moment: datetime) -> None:
        title = one_line(reply["title"], "the title", 10 * TITLE)
        text = render(piece, reply, title, model)
        path = _free(work, reply["category"], title)
        if lint.errors(lint.candidate(work.tree, path, text)):
            return
        data = {"sha256": piece.source.sha256, "lines": _lines(piece), "source": piece.source.path, "path": path}
        files = {path: text, ROUTING: _routed(work.text(ROUTING) or "", path, title, reply["keywords"])}
        if not work.tree.has(piece.source.path):
            files[piece.source.path] = piece.source.text
        work.add(Step(files, (Event("ingested", stamp(moment), None, data),)))
        written.append(path)

    run(tree, act, now)
    return written[-1] if written else None


def render(piece: Piece, reply: Mapping[str, Any], title: str, model: str) -> str:
    """The text of a page."""
    front = {"source": piece.source.path, "sha256": piece.source.sha256, "lines": _lines(piece), "model": model}
    parts = [f"# {title}\n", f"{one_line(reply['summary'], 'the summary', 10 * SUMMARY)}\n"]
    for claim in sorted(reply["claims"], key=lambda claim: claim["paragraph"]):
        cited = piece.paragraphs[claim["paragraph"] - 1]
        parts.append(f"- {one_line(claim['claim'], 'a claim', 10 * CLAIM)}\n{quoted(cited.text)} (line {cited.line})\n")
    return frontmatter.join(front, "\n".join(parts))


def quoted(text: str) -> str:
    """A paragraph as a quotation below a claim, cut at QUOTE characters."""
    flat = " ".join(text.split())
    return "  > " + (flat if len(flat) <= QUOTE else flat[:QUOTE].rstrip() + " …")


def _routed(table: str, path: str, title: str, keywords: Sequence[str]) -> str:
    """The routing table with a trigger for the page, by words that no other trigger has."""
    triggers = parse(table).triggers
    names, taken = (
        {trigger.id for trigger in triggers},
        {word.casefold() for each in triggers for word in each.keywords},
    )
    own = tuple(word for word in keywords if word.casefold() not in taken)
    if not own:
        return table  # the router finds it by what it says
    stem = slug(title, "page")[:56].strip("-") or "page"
    name = next(each for n in range(1, 100_000) if (each := stem if n == 1 else f"{stem}-{n}") not in names)
    return with_trigger(table, Trigger(name, own, (path,), by=BY))


def _free(work: Work, category: str, title: str) -> str:
    stem = slug(title, "page")
    paths = (f"wiki/{category}/{stem}{'' if n == 1 else f'-{n}'}.md" for n in range(1, 100_000))
    return next(path for path in paths if work.text(path) is None)


def _lines(piece: Piece) -> str:
    return f"{piece.first}-{piece.last}"
