"""Which pages speak of what a text speaks of: BM25 over weighted terms, exact where that is quick, and cut short beyond.

Rare words open candidates; once enough postings have been read, commoner words only add to the best of those, so the time
does not grow with the tree. A word that no page has stands for those that begin like it: other inflections, compounds.
What is loaded in the end is router.py.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nightschool.sek.stopwords import STOPWORDS
from nightschool.sek.synonyms import WORTH, neighbours
from nightschool.sek.terms import Terms
from nightschool.sek.words import is_sign, terms

K1, B = 1.2, 0.6
OPENED = 4_000
"""Postings that may open candidates."""
BEST = 200
"""Candidates that later words may add to, and the most that are ranked."""
EXPLAINED = 16
"""Ranked pages that are told by which words."""
SHORTEST_PREFIX = 4
LIKE = 0.5
"""What a word that only begins alike is worth."""
MOST_ALIKE = 8
SIGN = 0.3
"""What a single Han character is worth beside a word."""
NEAR = 0.2
"""What fits scores at least this share of the best."""
LEAST = 0.1
"""A share of what a word is worth that one page has; a page that scores less has nothing to do with the text."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A page (its number), how well it fits, and the words of the text that made it fit, the heaviest first."""

    number: int
    score: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """The pages of one term, and what it is worth there."""

    worth: float
    numbers: Sequence[int]
    weights: bytes


class Ranking:
    """The pages of a tree, ready to be ranked for one text after another."""

    def __init__(self, terms: Terms) -> None:
        """What does not depend on a text is worked out here."""
        self.terms = terms
        lengths = [page.length for page in terms.pages if page]
        self._live = len(lengths)
        average = sum(lengths) / len(lengths) if lengths else 1.0
        self._dead = [number for number, page in enumerate(terms.pages) if page is None]
        self._norms = [K1 * (1 - B + B * page.length / max(average, 1.0)) if page else 0.0 for page in terms.pages]

    def rank(self, wanted: Mapping[str, Mapping[str, float]]) -> list[Ranked]:
        """The pages that fit, the best first. `wanted`: for each word of a text the terms that may stand for it, and what
        each is worth (1: the word itself); a page scores by the best of them, which is never rarer than the word itself."""
        found = [(self._found(word, group), word) for word, group in wanted.items()]
        order = sorted((sum(len(term.numbers) for term in group), word, group) for group, word in found if group)
        scores: dict[int, float] = {}
        opened = 0
        best: list[int] | None = None
        for count, _, group in order:
            opened += count
            if best is None and opened > OPENED and scores:
                best = self._best(scores)
                scores = {number: scores[number] for number in best}
            self._add(scores, group, best)
        groups = [(word, group) for _, word, group in order]
        ranked = enumerate(self._best(scores))
        return [Ranked(n, scores[n], self._why(n, groups) if place < EXPLAINED else ()) for place, n in ranked]

    def fitting(self, text: str, most: int) -> list[Ranked]:
        """The pages that a text needs, the best first: at most `most`, none far below the best or next to nothing."""
        ranked = self.rank(self.wanted(text))
        bar = max(NEAR * ranked[0].score, LEAST * math.log(1 + self._live)) if ranked else 0.0
        return [entry for entry in ranked[:most] if entry.score >= bar]

    def wanted(self, text: str) -> dict[str, dict[str, float]]:
        """For each word of a text the terms that may stand for it: itself, what begins like it, its neighbours."""
        wanted: dict[str, dict[str, float]] = {}
        for word in terms(text):
            if word in STOPWORDS or word in wanted:
                continue
            group = dict.fromkeys(neighbours(word), WORTH)
            if self.terms.known(word):
                group[word] = SIGN if is_sign(word) else 1.0
            else:
                group |= dict.fromkeys(alike(word, self._vocabulary), LIKE)
            wanted[word] = group
        return wanted

    @cached_property
    def _vocabulary(self) -> list[str]:
        return sorted(self.terms.vocabulary())

    def _found(self, word: str, group: Mapping[str, float]) -> list[_Term]:
        ceiling = math.inf
        found = []
        for term in sorted(group, key=lambda term: (term != word, term)):
            numbers, weights = self.terms.postings(term)
            count = len(numbers) - _among(self._dead, numbers)
            if count > 0:
                rarity = math.log(1 + (self._live - count + 0.5) / (count + 0.5))
                ceiling = rarity if term == word else ceiling
                found.append(_Term(group[term] * min(rarity, ceiling) * (K1 + 1), numbers, weights))
        return found

    def _add(self, scores: dict[int, float], group: Sequence[_Term], best: Sequence[int] | None) -> None:
        """Add what one word gives to each page that has it; once `best` stands, to those pages only."""
        norms = self._norms
        parts: dict[int, float] = {}
        for term in group:
            worth = term.worth
            if best is None:
                entries: Iterable[tuple[int, int]] = zip(term.numbers, term.weights, strict=True)
            else:
                entries = _looked_up(best, term)
            for number, weight in entries:
                norm = norms[number]
                if norm:
                    part = worth * weight / (weight + norm)
                    if part > parts.get(number, 0.0):
                        parts[number] = part
        for number, part in parts.items():
            scores[number] = scores.get(number, 0.0) + part

    def _why(self, number: int, groups: Iterable[tuple[str, Sequence[_Term]]]) -> tuple[str, ...]:
        parts: dict[str, float] = {}
        for word, group in groups:
            single: dict[int, float] = {}
            self._add(single, group, [number])
            if single:
                parts[word] = single[number]
        return tuple(sorted(parts, key=lambda word: (-parts[word], word)))

    def _best(self, scores: Mapping[int, float]) -> list[int]:
        """The best pages; equals stand in the order of their paths, whatever numbers they have."""
        numbers: Iterable[int] = scores
        if len(scores) > 2 * BEST:
            bar = heapq.nlargest(BEST, scores.values())[-1]
            numbers = [number for number, score in scores.items() if score >= bar]
        pages = self.terms.pages
        return sorted(numbers, key=lambda number: (-scores[number], page.path if (page := pages[number]) else ""))[
            :BEST
        ]


def alike(word: str, vocabulary: Sequence[str]) -> list[str]:
    """Terms of a sorted vocabulary that begin like the word: what is left is at most three letters of either."""
    shared = max(SHORTEST_PREFIX, len(word) - 3)
    if len(word) < SHORTEST_PREFIX + 1 or not word.isalpha():
        return []
    prefix = word[:shared]
    found: list[str] = []
    for term in vocabulary[bisect_left(vocabulary, prefix) :]:
        if not term.startswith(prefix) or len(found) == MOST_ALIKE:
            break
        if abs(len(term) - len(word)) <= 3:
            found.append(term)
    return found


def _looked_up(candidates: Iterable[int], term: _Term) -> list[tuple[int, int]]:
    numbers, count = term.numbers, len(term.numbers)
    places = ((number, bisect_left(numbers, number)) for number in candidates)
    return [(number, term.weights[place]) for number, place in places if place < count and numbers[place] == number]


def _among(dead: Sequence[int], numbers: Sequence[int]) -> int:
    """How many of the dead are in an ascending list of numbers."""
    if len(dead) > len(numbers):
        gone = set(dead)
        return sum(number in gone for number in numbers)
    places = ((number, bisect_left(numbers, number)) for number in dead)
    return sum(place < len(numbers) and numbers[place] == number for number, place in places)
