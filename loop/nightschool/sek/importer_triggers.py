"""Keywords for pages, by code: from headings, bold terms, names in code and tables, and the words that no other page has.

A keyword is kept for one page only, the one that it says most about, so no two triggers overlap; words that many pages
share are no keywords, the router weighs those itself. A model that is at hand may add to them (`asked`),
under a grammar.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightschool.sek.importer_sections import plain
from nightschool.sek.stopwords import STOPWORDS
from nightschool.sek.triggers import ALWAYS
from nightschool.sek.words import phrase

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine

MOST, LEAST = 14, 2
"""Keywords of a page."""
SHARE = 0.15
"""A term in more than this share of the pages is no keyword."""
LONGEST, LONGEST_PHRASE = 40, 9
"""Characters and words of a keyword; a pair of Han characters is a word."""
_CODE = re.compile(r"(?<!`)`([^`\n]{2,60})`(?!`)")
_BOLD = re.compile(r"\*\*([^*\n]{2,60})\*\*")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$", re.M)
_CELL = re.compile(r"^ {0,3}\|[ \t]*([^|\n]+?)[ \t]*\|", re.M)
_APART = re.compile(
    r"\s*[:：—–·/&,，、;；()（）「」\[\]|=+→]\s*|\s-\s|\s+(?:and|or|for|with|of|und|et|y|и|與|和|及)\s+|\s+(?=`)|`"
)
_WORD = re.compile(r"[A-Za-zÀ-ɏΑ-ωА-яЁё][\w'-]*[\w]")
_NO_LETTER = re.compile(r"[\W\d_]|v(?=\d)")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1[`~]*[ \t]*$", re.M | re.S)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\\\"{}<>$*#]")
_EVERYDAY = """
    first last next previous found nothing anything content continue clear alone already enabled specific place point
    points mode total full real best built simple end start begin high low old recent current latest number values main
    include given create update updates updated change changes check call calls work read write open close save load
    https http www com via per one two three all any each every both other same different important critical
    rule rules detailed available
    use used using run make made file files code example examples command commands key value name names note notes new
    add set get list show data type types default option options step steps true false null work works thing things
    see also only must always never should when project page text line lines user users 範例 說明 使用 用途 別名
"""

_WORTHLESS = frozenset(_EVERYDAY.split())


@dataclass(frozen=True, slots=True)
class Topic:
    """A page as its keywords are sought: its headings, the titles above it, and its text."""

    path: str
    titles: tuple[str, ...]
    text: str


def keywords(topics: Sequence[Topic], more: Mapping[str, Sequence[str]] | None = None) -> dict[str, tuple[str, ...]]:
    """Keywords for each page; `more` are some that a person or a model has named, which go first."""
    spoken = {topic.path: f" {' '.join(phrase(topic.text))} " for topic in topics}
    rated: list[tuple[float, str, str, tuple[str, ...]]] = []
    for topic in topics:
        weights: dict[tuple[str, ...], float] = defaultdict(float)
        forms: dict[tuple[str, ...], str] = {}
        for weight, term in _candidates(topic, (more or {}).get(topic.path, ())):
            key = phrase(term)
            if is_term(term, key):
                weights[key] += weight
                forms.setdefault(key, term)
        for key, weight in weights.items():
            said = sum(f" {' '.join(key)} " in text for text in spoken.values()) or 1
            if said <= max(2, SHARE * len(topics)):
                rated.append((weight * math.log1p(len(topics) / said), topic.path, forms[key], key))
    return _shared_out(rated, topics)


def _shared_out(
    rated: list[tuple[float, str, str, tuple[str, ...]]], topics: Sequence[Topic]
) -> dict[str, tuple[str, ...]]:
    """The best of each page; no keyword twice."""
    found: dict[str, list[str]] = {topic.path: [] for topic in topics}
    taken: set[tuple[str, ...]] = set()
    for _, path, term, key in sorted(rated, key=lambda each: (-each[0], each[1], each[2])):
        if key not in taken and len(found[path]) < MOST:
            taken.add(key)
            found[path].append(term)
    for topic in topics:
        if len(found[topic.path]) < LEAST:
            _fill(found[topic.path], topic, taken)
    return {path: tuple(terms) for path, terms in found.items()}


def _fill(terms: list[str], topic: Topic, taken: set[tuple[str, ...]]) -> None:
    """A page that says nothing of its own is called by its name."""
    stem = topic.path.rsplit("/", 1)[-1].removesuffix(".md").replace("-", " ")
    for term in (*reversed(topic.titles), stem, " ".join((*topic.titles, stem))):
        short = _UNSAFE.sub("", plain(term))[:LONGEST].strip()
        key = phrase(short)
        if key and key not in taken and len(terms) < LEAST:
            taken.add(key)
            terms.append(short)


def _candidates(topic: Topic, more: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Terms of a page with what they are worth there."""
    for term in more:
        yield 8.0, term.strip()
    for title in (*_HEADING.findall(topic.text), *topic.titles[-2:]):
        yield from ((4.0, term) for term in _terms(title))
    prose = _FENCE.sub("", topic.text)
    for bold in _BOLD.findall(prose):
        yield from ((2.5, term) for term in _terms(bold))
    for cell in _CELL.findall(prose):
        yield from ((2.5, term) for term in _terms(cell))
    for code in _CODE.findall(prose):
        yield 1.5, _command(code)
    counted = Counter(word.casefold() for word in _WORD.findall(topic.text))
    for word, times in counted.items():
        if times > 2 and len(word) > 3:
            yield 0.6 * math.sqrt(times), word


def _terms(title: str) -> Iterator[str]:
    """The phrases of a title, and each of its words."""
    bare = plain(title)
    for piece in _APART.split(bare):
        if piece and len(_WORD.findall(piece)) <= 4:
            yield piece.strip(" .。!！?？\"'")
    yield from (word.casefold() for word in _WORD.findall(bare))


def _command(code: str) -> str:
    """What a span of code is called by: its words before options and arguments."""
    kept: list[str] = []
    for word in code.split():
        if not re.fullmatch(r"[@A-Za-z_./~][\w@./:~*-]*", word) or len(kept) == 3:
            break
        kept.append(word)
    return " ".join(kept).strip("./*: ") or code.strip()


def is_term(term: str, key: tuple[str, ...]) -> bool:
    """Whether a term, whose words are `key`, is worth being a keyword."""
    if not key or not 2 <= len(term) <= LONGEST or _UNSAFE.search(term) or len(_NO_LETTER.sub("", term)) < 2:
        return False
    if not (term[0].isalnum() or term[0] in "@~-_./:") or len(key) > LONGEST_PHRASE:
        return False
    spoken = term.casefold().split()
    if spoken == [ALWAYS] or all(word in _WORTHLESS or word in STOPWORDS for word in spoken):
        return False
    return not all(word in STOPWORDS or word in _WORTHLESS or len(word) < 2 for word in key)


def asked(engine: Engine, topics: Sequence[Topic]) -> dict[str, tuple[str, ...]]:
    """Keywords that a model names for each page, under a grammar; a page without an answer has none."""
    from nightschool.engine import terms as t
    from nightschool.engine.engine import drive
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.types import Completion, Message, Request, Sampling

    grammar = Grammar.build(t.obj({"keywords": t.array(t.text(30, 2), 3, 8)}))
    system = (
        "You name the words by which people would ask for a page: topics, tools, symptoms, in the page's own language."
    )

    def ask(topic: Topic):  # type: ignore[no-untyped-def]
        messages = (Message("system", system), Message("user", topic.text[:4000] + "\n\nReply with one JSON object."))
        completion: Completion = yield Request(messages, grammar, Sampling(max_tokens=grammar.limit))
        return tuple(json.loads(completion.text)["keywords"]) if completion.valid else ()

    return dict(drive(engine, {topic.path: ask(topic) for topic in topics}))
