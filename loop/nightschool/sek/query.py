"""`wiki query`: a question, the pages that the router finds for it, and an answer that must cite them.

The model is shown the paragraphs of the routed pages, numbered, and may only say an answer with the numbers of what it rests
on, or that the pages do not tell. Without a page that fits it is not asked at all. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nightschool.engine import terms as t
from nightschool.engine.engine import Engine, drive
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Completion, Message, Request, Sampling
from nightschool.sek.prose import lines, shown
from nightschool.sek.router import Router
from nightschool.sek.tree import INDEX, Tree

ANSWER, MOST_CITED, MOST_PASSAGES = 400, 4, 60
SYSTEM = (
    "You answer a question from the passages of a wiki, which are numbered, and from nothing else. You give the numbers of "
    "the passages that your answer rests on. When they do not tell, you say so."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph of a page; `line` counts from 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered; no text means that the wiki does not tell. `tokens` are those of the prompt and the reply."""

    question: str
    text: str | None
    cites: tuple[Passage, ...]
    pages: tuple[str, ...]
    tokens: int

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def query(tree: Tree, question: str, engine: Engine) -> Answer:
    """Answer a question from the pages that the router finds."""
    routed = Router.load(tree).route(question)
    pages = tuple(load.path for load in routed.loads or routed.dropped[:1] if load.path != INDEX)
    found = [passage for path in pages for passage in passages(path, tree.read(path))]
    if not found:
        return Answer(question, None, (), (), 0)
    kept = _fitting(question, found[:MOST_PASSAGES], engine)
    ((_, (reply, tokens)),) = drive(engine, {"query": ask(question, kept)})
    if reply is None or not reply["found"]:
        return Answer(question, None, (), pages, tokens)
    return Answer(
        question, reply["answer"], tuple(kept[number - 1] for number in sorted(reply["cites"])), pages, tokens
    )


def ask(question: str, given: Sequence[Passage]) -> Generator[Request, Completion, tuple[dict[str, Any] | None, int]]:
    """The reply of a model, if it has a valid one, and the tokens that it took."""
    grammar = Grammar.build(reply_term(len(given)))
    completion = yield Request(_messages(question, given), grammar, Sampling(max_tokens=grammar.limit))
    tokens = (completion.usage.prompt_tokens or 0) + (completion.usage.generated_tokens or 0)
    return (json.loads(completion.text) if completion.valid else None), tokens


def reply_term(count: int) -> t.Term:
    """An answer with what it rests on, or that there is none."""
    numbers = [t.const(number) for number in range(1, count + 1)]
    cites = t.distinct_objects(numbers, 1, min(MOST_CITED, count))
    told = t.obj({"found": t.const(True), "answer": t.text(ANSWER, 1), "cites": cites})
    return t.alt([told, t.obj({"found": t.const(False)})])


def passages(path: str, text: str) -> list[Passage]:
    """The paragraphs of a page, its front matter left out; a fence is part of one."""
    rows = lines(text)
    body = next((n for n, said in enumerate(shown(rows)) if said), 0)
    found: list[Passage] = []
    start, block = body, ""
    for number in range(body, len(rows) + 1):
        row = rows[number] if number < len(rows) else ""
        if row.strip():
            start, block = (start, block + row) if block else (number, row)
        elif block:
            found.append(Passage(path, start + 1, block.strip()))
            block = ""
    return found


def _messages(question: str, given: Sequence[Passage]) -> tuple[Message, ...]:
    numbered = "\n\n".join(f"[{n}] {passage.text}" for n, passage in enumerate(given, start=1))
    return Message("system", SYSTEM), Message(
        "user", f"{numbered}\n\nQuestion: {question}\nReply with one JSON object."
    )


def _fitting(question: str, found: Sequence[Passage], engine: Engine) -> list[Passage]:
    """The first passages, as many as the context holds beside the answer."""
    room = engine.model.context - Grammar.build(reply_term(len(found))).limit
    kept = list(found)
    while len(kept) > 1 and engine.count(_messages(question, kept)) > room:
        kept = kept[: max(1, len(kept) * 3 // 4)]
    return kept
