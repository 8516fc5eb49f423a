"""Which pages speak of what a text speaks of: BM25 over weighted terms, exact where that is quick, and cut short beyond.

Rare terms open candidates; once enough postings have been read, commoner terms only add to the best of those, so the time
does not grow with the tree. A word that no page has stands for those that begin like it: other inflections, compounds.
What is loaded in the end is router.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nightschool.sek.terms import Terms

K1, B = 1.2, 0.6
OPENED = 12_000
"""Postings that may open candidates."""
BEST = 256
"""Candidates that later terms may add to."""
SHORTEST_PREFIX = 4
LIKE = 0.5
"""What a word that only begins alike is worth."""
MOST_ALIKE = 8


@dataclass(frozen=True, slots=True)
class Ranked:
    """A page (its number), how well it fits, and the terms that made it fit, the heaviest first."""

    number: int
    score: float
    terms: tuple[str, ...]


def rank(terms: Terms, wanted: Mapping[str, float]) -> list[Ranked]:
    """The pages that have any of the wanted terms, the best first; `wanted` is what each term is worth."""
    live = [page.length for page in terms.pages if page]
    if not live:
        return []
    average = sum(live) / len(live) or 1.0
    dead = [number for number, page in enumerate(terms.pages) if page is None]
    found = []
    for term, worth in wanted.items():
        numbers, weights = terms.postings(term)
        count = len(numbers) - _among(dead, numbers)
        if count > 0:
            found.append((count, term, worth * math.log(1 + (len(live) - count + 0.5) / (count + 0.5)), numbers, weights))
    found.sort(key=lambda entry: entry[:2])
    scores: dict[int, float] = {}
    parts: dict[int, list[tuple[float, str]]] = {}
    opened = 0
    for count, term, worth, numbers, weights in found:
        opened += count
        if opened > OPENED and scores:
            entries = _looked_up(_best(terms, scores), numbers, weights)
        else:
            entries = list(zip(numbers, weights, strict=True))
        for number, weight in entries:
            page = terms.pages[number]
            if page is None:
                continue
            part = worth * weight * (K1 + 1) / (weight + K1 * (1 - B + B * page.length / average))
            scores[number] = scores.get(number, 0.0) + part
            parts.setdefault(number, []).append((-part, term))
    return [
        Ranked(number, scores[number], tuple(term for _, term in sorted(parts[number])))
        for number in _best(terms, scores)
    ]


def alike(word: str, vocabulary: Sequence[str]) -> list[str]:
    """Terms of a sorted vocabulary that begin like the word: what is left is at most three letters of either."""
    shared = max(SHORTEST_PREFIX, len(word) - 3)
    if len(word) < SHORTEST_PREFIX + 1 or not word.isalpha():
        return []
    prefix = word[:shared]
    found = []
    for term in vocabulary[bisect_left(vocabulary, prefix) :]:
        if not term.startswith(prefix) or len(found) == MOST_ALIKE:
            break
        if abs(len(term) - len(word)) <= 3:
            found.append(term)
    return found


def _best(terms: Terms, scores: Mapping[int, float]) -> list[int]:
    """The best candidates; equals stand in the order of their paths, whatever numbers they have."""

    def key(number: int) -> tuple[float, str]:
        page = terms.pages[number]
        return -scores[number], page.path if page else ""

    if len(scores) > 4 * BEST:
        bar = sorted(scores.values(), reverse=True)[BEST - 1]
        return sorted((number for number, score in scores.items() if score >= bar), key=key)[:BEST]
    return sorted(scores, key=key)[:BEST]


def _looked_up(candidates: Sequence[int], numbers: Sequence[int], weights: bytes) -> list[tuple[int, int]]:
    places = ((number, bisect_left(numbers, number)) for number in candidates)
    return [(number, weights[place]) for number, place in places if place < len(numbers) and numbers[place] == number]


def _among(dead: Sequence[int], numbers: Sequence[int]) -> int:
    """How many of the dead are in an ascending list of numbers."""
    if len(dead) > len(numbers):
        gone = set(dead)
        return sum(number in gone for number in numbers)
    return sum(1 for number, place in ((n, bisect_left(numbers, n)) for n in dead) if place < len(numbers) and numbers[place] == number)
