"""Text in, pages out: which pages of a tree a text needs, why, and what each costs. Deterministic; writes nothing.

1. A trigger whose keyword stands in the text, word for word, is a sure match for its pages. `always` matches every text.
2. Every page is ranked by what its body, headings and name have in common with the text (ranking.py), so that a page is
   found by words that no trigger has.
3. By priority, then by both scores together, pages are loaded while the budget lasts; ranked pages only while they are
   near the best. What does not fit is `dropped`. If nothing fits the text, the index is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from nightschool.disk.errors import Problem
from nightschool.sek.counting import ESTIMATED
from nightschool.sek.keywords import Keywords, Match
from nightschool.sek.ranking import LEAST, NEAR, Ranked, Ranking
from nightschool.sek.terms import Counts, Page, Terms
from nightschool.sek.tree import INDEX, Tree
from nightschool.sek.words import surfaces

RANKED, FALLBACK = "ranked", "index"
"""What stands in the place of a trigger where there was none."""
SURE = 3.0
"""What a keyword that one page has is worth beside the words of a body."""
MOST_RANKED = 16
LONGEST_TEXT = 20_000
"""Characters of a text that are looked at, from its start and its end: a pasted log is not what was asked."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A page, what it costs, and why it is here: the trigger and its keyword, or RANKED and the words in common."""

    path: str
    tokens: int
    trigger: str
    keyword: str
    score: float


@dataclass(frozen=True, slots=True)
class Route:
    """The answer for one text."""

    loads: tuple[Loaded, ...]
    dropped: tuple[Loaded, ...]
    """What fits the text but not the budget."""
    l0_tokens: int
    total_tokens: int
    """L0 and everything loaded."""
    budget: int
    fallback: bool
    """Whether nothing fitted the text, so that the index was loaded."""
    estimated: bool
    """Whether a count is a guess, because no tokenizer was at hand."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    page: Page
    score: float
    priority: int
    match: Match | None
    words: str
    always: bool


class Router:
    """A loaded tree."""

    def __init__(self, tree: Tree, index: Terms, keywords: Keywords, counter: Counts | None = None) -> None:
        """`counter` counts what the cache has not (default: the student's tokenizer, loaded when needed)."""
        self.tree = tree
        self.index = index
        self.keywords = keywords
        self._ranking = Ranking(index)
        self._given = counter
        self._estimated = False
        self._counted: dict[str, int] = {}
        self._numbers = {page.path: number for number, page in enumerate(index.pages) if page}

    @classmethod
    def load(cls, tree: Tree, counter: Counts | None = None) -> Router:
        """Read what is needed of the tree: the cache, and the pages that have changed since."""
        return cls.over(tree, Terms.load(tree), counter)

    @classmethod
    def over(cls, tree: Tree, index: Terms, counter: Counts | None = None) -> Router:
        """The same, with the terms of the pages at hand."""
        return cls(tree, index, Keywords.load(tree, index), counter)

    def route(self, text: str, budget: int | None = None, without: Iterable[str] = ()) -> Route:
        """The pages for a text; `budget` is in tokens (default: the tree's), pages in `without` are passed over."""
        routing = self.keywords.routing
        budget = routing.budget if budget is None else budget
        self._estimated = self.index.counter == ESTIMATED
        gone = set(without)
        found = [candidate for candidate in self._candidates(_ends(text)) if candidate.page.path not in gone]
        loads, dropped = self._fit(found, budget)
        fallback = not any(candidate.match is None or not candidate.always for candidate in found) and not gone
        if fallback and self.tree.has(INDEX):
            loads.append(Loaded(INDEX, self._file_tokens(INDEX), FALLBACK, "", 0.0))
        l0_tokens = self._file_tokens(routing.bootstrap)
        total = l0_tokens + sum(load.tokens for load in loads)
        return Route(tuple(loads), tuple(dropped), l0_tokens, total, budget, fallback, self._estimated)

    def always(self) -> list[str]:
        """The pages that every text loads."""
        return list(dict.fromkeys(path for trigger in self.keywords.always for path in trigger.load))

    def _candidates(self, text: str) -> list[_Candidate]:
        """Every page that the text may need, the most relevant first."""
        matched = self.keywords.match(text)
        spelled = surfaces(text)
        ranked = {entry.number: entry for entry in self._ranking.rank(self._ranking.wanted(text))}
        found: dict[int, _Candidate] = {}
        for match in matched:
            for path in match.trigger.load:
                number = self._numbers.get(path)
                if number is not None:
                    found[number] = self._matched(number, match, ranked.get(number), found.get(number))
        best = max([*(entry.score for entry in ranked.values()), 0.0])
        bar = max(NEAR * best, LEAST * math.log(1 + len(self._numbers)))
        for entry in islice(ranked.values(), MOST_RANKED):
            page = self.index.pages[entry.number]
            if entry.score < bar or page is None:
                break
            if entry.number not in found:
                words = ", ".join(dict.fromkeys(spelled.get(term, term) for term in entry.words[:3]))
                found[entry.number] = _Candidate(page, entry.score, 0, None, words, False)
        return sorted(found.values(), key=lambda c: (not c.always, -c.priority, -c.score, c.page.path))

    def _matched(self, number: int, match: Match, ranked: Ranked | None, before: _Candidate | None) -> _Candidate:
        page = self.index.pages[number]
        assert page is not None
        trigger = match.trigger
        bonus = SURE * self.keywords.rarity(match)
        if before is None:
            score = (ranked.score if ranked else 0.0) + bonus
            return _Candidate(page, score, trigger.priority, match, match.keyword, trigger.always)
        first = before.match is not None and (before.always, before.priority) >= (trigger.always, trigger.priority)
        shown = before.match if first else match
        priority, always = max(before.priority, trigger.priority), before.always or trigger.always
        return _Candidate(page, before.score + bonus, priority, shown, before.words if first else match.keyword, always)

    def _fit(self, found: list[_Candidate], budget: int) -> tuple[list[Loaded], list[Loaded]]:
        """Load while the budget lasts; what every text loads is never dropped, and counts."""
        loads: list[Loaded] = []
        dropped: list[Loaded] = []
        used = 0
        for candidate in found:
            tokens = self._tokens(candidate.page)
            name = candidate.match.trigger.id if candidate.match else RANKED
            load = Loaded(candidate.page.path, tokens, name, candidate.words, round(candidate.score, 4))
            if used + tokens <= budget or candidate.always:
                used += tokens
                loads.append(load)
            else:
                dropped.append(load)
        return loads, dropped

    @cached_property
    def _counter(self) -> Counts:
        if self._given is not None:
            return self._given
        from nightschool.sek.counting import counter

        return counter(cwd=self.tree.root)

    def _tokens(self, page: Page) -> int:
        if page.tokens >= 0 and (self._given is None or self._given.name == self.index.counter):
            return page.tokens
        return self._count(page.path)

    def _file_tokens(self, path: str) -> int:
        known = self.index.files.get(path)
        if known and known[:2] == self.tree.stamp(path):
            return known[2]
        return self._count(path) if self.tree.has(path) else 0

    def _count(self, path: str) -> int:
        self._estimated = self._estimated or self._counter.name == ESTIMATED
        if path not in self._counted:
            try:
                self._counted[path] = self._counter.count(self.tree.read(path))
            except Problem:
                self._counted[path] = 0
        return self._counted[path]


def _ends(text: str) -> str:
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]}\n{text[-half:]}"
