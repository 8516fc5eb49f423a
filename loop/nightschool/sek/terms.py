"""The term cache `memory/terms.json`: what the router needs of every page and trigger, so that it reads none of them.

    {"schema": 1, "counter": NAME, "pages": [[PATH, SIZE, MTIME_NS, LENGTH, TOKENS] | null, ...],
     "files": {PATH: [SIZE, MTIME_NS, TOKENS]}, "routing": {"stamp": [SIZE, MTIME_NS], ...}, "terms": {TERM: POSTINGS}}

Postings are base64: the numbers of the pages that have the term, ascending, 4 bytes each, little endian, then the weight
in each, one byte; they are decoded only when a text asks for the term. A page that changes gets a new number, its old one
becomes null; when many are null all are numbered anew. What is not in step with the disk is read
from the pages themselves, so the cache changes the time but never the answer. It may be deleted at any time.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from base64 import b64decode, b64encode
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from nightschool.disk.errors import Problem
from nightschool.sek.tree import INDEX, TERMS, PageFile, Tree

SCHEMA = 1
HEADING, NAME, BODY = 3, 2, 1
"""What a word is worth by where it stands."""
_HEADING = re.compile(r"^ {0,3}(?:#{1,6}[ \t]+(.*)|(.*)\n {0,3}(?:=+|-{2,})[ \t]*$)", re.M)
Postings = tuple["array[int]", bytes]
"""Numbers of pages, ascending, and as many weights."""
_DEAD_SHARE = 0.25


class Counts(Protocol):
    """Counts tokens; counting.py has the real one."""

    name: str

    def count(self, text: str) -> int:
        """Tokens of a text."""


@dataclass(slots=True)
class Page:
    """What is known of one page."""

    path: str
    size: int
    mtime_ns: int
    length: int
    """Words."""
    tokens: int
    """-1: not counted yet."""


@dataclass(slots=True)
class Terms:
    """The terms of all pages of a tree, in step with its disk."""

    pages: list[Page | None] = field(default_factory=list)
    files: dict[str, list[int]] = field(default_factory=dict)
    counter: str = ""
    routing: dict[str, Any] = field(default_factory=dict)
    packed: dict[str, str] = field(default_factory=dict)
    fresh: dict[str, tuple[list[int], bytearray]] = field(default_factory=dict)
    """Postings of pages that are not in the cache."""
    problems: list[Problem] = field(default_factory=list)
    """Pages that cannot be read."""
    changed: bool = False

    @classmethod
    def load(cls, tree: Tree) -> Terms:
        """The cache, and what it lacks read from the pages. Writes nothing."""
        terms = cls()
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            terms = _read(json.loads(tree.inside(TERMS).read_bytes()))
        terms._follow(tree)
        return terms

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Terms:
        """The terms of texts that lie in no tree, by their names."""
        terms = cls()
        for name, text in texts.items():
            terms._put(Page(name, len(text), 0, 0, -1), text)
        return terms

    def save(self, tree: Tree, counter: Counts | None) -> None:
        """Count what is not counted (without a counter: another time), and write the cache if anything has changed.

        A disk that refuses does no harm."""
        if counter is not None:
            self._count(tree, counter)
        if not self.changed:
            return
        self._pack()
        record = {
            "schema": SCHEMA,
            "counter": self.counter,
            "pages": [page and [page.path, page.size, page.mtime_ns, page.length, page.tokens] for page in self.pages],
            "files": self.files,
            "routing": self.routing,
            "terms": {term: self.packed[term] for term in sorted(self.packed)},
        }
        from nightschool.disk.files import write_atomic

        with suppress(Problem):
            write_atomic(tree.inside(TERMS), json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            self.changed = False

    def postings(self, term: str) -> Postings:
        """The pages that have the term, those that are gone (None in `pages`) too."""
        numbers, weights = _unpacked(self.packed.get(term, ""))
        if term in self.fresh:
            more, heavy = self.fresh[term]
            numbers.extend(more)
            weights += heavy
        return numbers, weights

    def known(self, term: str) -> bool:
        """Whether any page may have the term."""
        return term in self.packed or term in self.fresh

    def vocabulary(self) -> Iterable[str]:
        """Every term, in no order."""
        return {*self.packed, *self.fresh}

    def _follow(self, tree: Tree) -> None:
        """Forget pages that have changed or gone, and read those that are new."""
        known = {page.path: number for number, page in enumerate(self.pages) if page}
        for file in tree.page_files():
            number = known.pop(file.path, None)
            page = None if number is None else self.pages[number]
            if page is not None and (page.size, page.mtime_ns) == (file.size, file.mtime_ns) and file.mtime_ns:
                continue
            if number is not None:
                self.pages[number] = None
                self.changed = True
            self._add(tree, file)
        for number in known.values():
            self.pages[number] = None
            self.changed = True

    def _add(self, tree: Tree, file: PageFile) -> None:
        try:
            text = tree.read(file.path)
        except Problem as problem:
            self.problems.append(problem)
            return
        self._put(Page(file.path, file.size, file.mtime_ns, 0, -1), text)

    def _put(self, page: Page, text: str) -> None:
        weights, page.length = weigh(page.path, text)
        number = len(self.pages)
        self.changed = True
        self.pages.append(page)
        for term, weight in weights.items():
            numbers, heavy = self.fresh.setdefault(term, ([], bytearray()))
            numbers.append(number)
            heavy.append(weight)

    def _count(self, tree: Tree, counter: Counts) -> None:
        anew = counter.name != self.counter
        self.counter = counter.name
        for page in self.pages:
            if page and (anew or page.tokens < 0):
                page.tokens = counter.count(tree.read(page.path))
                self.changed = True
        for path in (tree.routing().bootstrap, INDEX):
            stamp = tree.stamp(path)
            if stamp and (anew or self.files.get(path, [])[:2] != stamp):
                self.files[path] = [*stamp, counter.count(tree.read(path))]
                self.changed = True

    def _pack(self) -> None:
        """Put everything into the form of the cache."""
        dead = sum(page is None for page in self.pages)
        if dead <= len(self.pages) * _DEAD_SHARE:
            self.packed |= {term: _packed(*self.postings(term)) for term in self.fresh}
            self.fresh = {}
            return
        places = {number: place for place, number in enumerate(n for n, page in enumerate(self.pages) if page)}
        everything = {term: self.postings(term) for term in self.vocabulary()}
        self.pages = [page for page in self.pages if page]
        self.packed, self.fresh = {}, {}
        for term, (numbers, weights) in everything.items():
            kept = [
                (places[number], weight) for number, weight in zip(numbers, weights, strict=True) if number in places
            ]
            if kept:
                self.packed[term] = _packed(array("I", [number for number, _ in kept]), bytes(w for _, w in kept))


def weigh(path: str, text: str) -> tuple[dict[str, int], int]:
    """The terms of a page, each with its weight (1 to 255), and the length of the page in words."""
    from nightschool.sek.stopwords import STOPWORDS
    from nightschool.sek.words import terms

    tally: Tally[str] = Tally()
    body = terms(text)
    for term in body:
        tally[term] += BODY
    for match in _HEADING.finditer(text):
        for term in terms(match[1] or match[2] or ""):
            tally[term] += HEADING - BODY
    for term in terms(" ".join(PurePosixPath(path).with_suffix("").parts[1:])):
        tally[term] += NAME
    return {term: min(weight, 255) for term, weight in tally.items() if term not in STOPWORDS}, len(body)


def _packed(numbers: array[int], weights: bytes) -> str:
    little = numbers if sys.byteorder == "little" else array("I", numbers)
    if little is not numbers:
        little.byteswap()
    return b64encode(little.tobytes() + weights).decode()


def _unpacked(packed: str) -> Postings:
    raw = b64decode(packed)
    numbers = array("I", raw[: len(raw) // 5 * 4])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, raw[len(raw) // 5 * 4 :]


def _read(record: Any) -> Terms:
    if record["schema"] != SCHEMA:
        raise ValueError("another schema")
    pages = [Page(*row) if row else None for row in record["pages"]]
    terms = Terms(pages, record["files"], record["counter"], record["routing"], record["terms"])
    if not all(isinstance(part, dict) for part in (terms.files, terms.routing, terms.packed)):
        raise ValueError("another form")
    return terms
