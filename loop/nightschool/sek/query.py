"""`wiki query`: a question -> an answer from the pages that it routes to, with the lines that it stands on.

The router says which pages; their units (units.py) that have most in common with the question go into the prompt, while
the budget lasts. Of a page that was ingested these are the quotes, the source's own words, and not what a model said of
them. The reply is bounded by a grammar: an answer cites at least one of the units shown, or it says that the wiki does not
have it. Writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.sek.ingest_page import QUOTE, opened
from nightschool.sek.router import Route
from nightschool.sek.tree import Tree
from nightschool.sek.units import MOST, Unit, fed, units
from nightschool.sek.words import signature

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.types import Message, Usage

REPLY_TOKENS = 300
ANSWER = 400
"""Characters of an answer."""
MOST_CITED = 4
MOST_TRIED = 4 * MOST
"""Passages that are tried for size, the nearest first."""
SHOWN = 160
"""Characters of a passage that a citation shows."""
SYSTEM = (
    "Answer the question from the numbered passages of a wiki, and name those that the answer stands on. If they do not "
    "answer it, say that it is not found."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A unit of a page, and the place in a source that it is quoted from."""

    path: str
    unit: Unit
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """Where an answer stands."""

    path: str
    line: int
    text: str
    source: str | None
    """The place in a source, `PATH:LINE`, if the page quotes it from there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the wiki says; without a text it says nothing."""

    text: str | None
    citations: tuple[Citation, ...]
    pages: tuple[str, ...]
    """Those that the prompt had something of."""
    model: str | None
    usage: Usage | None
    """None: no model was asked."""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        told = {"answer": self.text, "citations": [asdict(each) for each in self.citations], "pages": list(self.pages)}
        return {**told, "model": self.model, "usage": asdict(self.usage) if self.usage else None}


def routed(route: Route) -> list[str]:
    """The pages that a question leads to; those past the budget too, for the model is shown only parts of them."""
    return [] if route.fallback else [load.path for load in (*route.loads, *route.dropped)]


def query(tree: Tree, question: str, pages: Sequence[str], budget: int, engine: Engine) -> Answer:
    """Ask the model about the pages; of these at most `budget` tokens are shown."""
    from nightschool.engine.engine import drive
    from nightschool.engine.types import Completion, Request, Sampling

    shown = passages(tree, question, pages, budget, engine)
    names = [f"p{n}" for n in range(1, len(shown) + 1)]
    grammar = reply_grammar(names)

    sampling = Sampling(max_tokens=min(grammar.limit, REPLY_TOKENS))

    def ask() -> Generator[Request, Completion, Completion]:
        return (yield Request(messages(question, shown), grammar, sampling))

    [(_, completion)] = drive(engine, {"query": ask()})
    if not completion.valid:
        raise MachineProblem(f"the reply of {engine.model.alias} was cut off", "run the same command again")
    reply = json.loads(completion.text)
    cited = [shown[names.index(name)] for name in reply.get("passages", ())]
    text = " ".join(reply["answer"].split()) if reply["found"] else None
    used = tuple(dict.fromkeys(passage.path for passage in shown))
    return Answer(text, tuple(map(_citation, cited)), used, engine.model.alias, completion.usage)


def passages(tree: Tree, question: str, pages: Sequence[str], budget: int, engine: Engine) -> list[Passage]:
    """What the model is shown: the passages nearest to the question that fit, in the order of the pages."""
    every = [passage for path in pages for passage in _passages(tree, path)]
    wanted = signature(question)
    ranked = sorted(range(len(every)), key=lambda n: (-len(wanted & signature(every[n].unit.text)), n))
    bare = engine.count(messages(question, ()))
    room = min(engine.model.context - REPLY_TOKENS, bare + budget)
    kept: list[int] = []
    for number in ranked[:MOST_TRIED]:
        tried = sorted([*kept, number])
        if len(kept) < MOST and engine.count(messages(question, [every[n] for n in tried])) <= room:
            kept = tried
    if not kept:
        what = f"the question ({bare} tokens with what it is told) leaves no room for a passage in {room} tokens"
        raise Problem(what, "ask a shorter question, raise --budget, or use a model with a longer context")
    return [every[number] for number in kept]


def messages(question: str, shown: Sequence[Passage]) -> tuple[Message, ...]:
    """The prompt."""
    from nightschool.engine.types import Message

    told = "\n\n".join(f"[p{n}] {passage.unit.quote}" for n, passage in enumerate(shown, start=1))
    return Message("system", SYSTEM), Message("user", f"{told}\n\n{question}\n\nReply with one JSON object.")


def reply_grammar(names: Sequence[str]) -> Grammar:
    """What a reply may be: an answer with its passages, or that there is none."""
    from nightschool.engine import terms as t
    from nightschool.engine.grammar import Grammar

    cited = t.distinct(names, 1, min(MOST_CITED, len(names)))
    answered = t.obj({"found": t.const(True), "passages": cited, "answer": t.text(ANSWER, 1)})
    return Grammar.build(t.alt([answered, t.obj({"found": t.const(False)})]))


def _passages(tree: Tree, path: str) -> Iterator[Passage]:
    """What a page says, without its front matter, and without the claims above its quotes."""
    text = fed(tree.read(path))
    front, body = opened(text)
    at = len(text) - len(body)
    for match in QUOTE.finditer(text, at):
        yield from _plain(path, text, at, match.start())[:-1]
        words = Unit(match[4], match.start(4), text.count("\n", 0, match.start(4)) + 1, False)
        yield Passage(path, words, f"{front['source']}:{match[2]}" if "source" in front else None)
        at = match.end()
    yield from _plain(path, text, at, len(text))


def _plain(path: str, text: str, start: int, end: int) -> list[Passage]:
    """The units of a part of a page that say something."""
    lines = text.count("\n", 0, start)
    found = (replace(unit, start=unit.start + start, line=unit.line + lines) for unit in units(text[start:end]))
    return [Passage(path, unit) for unit in found if unit.quote]


def _citation(passage: Passage) -> Citation:
    words = " ".join("".join(char if char.isprintable() else " " for char in passage.unit.quote).split())
    short = words if len(words) <= SHOWN else words[: SHOWN - 1] + "…"
    return Citation(passage.path, passage.unit.first, short, passage.source)
