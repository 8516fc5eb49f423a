"""Which pages speak of what a text speaks of: BM25 over weighted terms, exact where that is quick, and cut short beyond.

Rare terms open candidates; once enough postings have been read, commoner terms only add to the best of those, so the time
does not grow with the tree. A word that no page has stands for those that begin like it: other inflections, compounds.
What is loaded in the end is router.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
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
    """A page (its number), how well it fits, and the words of the text that made it fit, the heaviest first."""

    number: int
    score: float
    words: tuple[str, ...]


def rank(terms: Terms, wanted: Mapping[str, Mapping[str, float]]) -> list[Ranked]:
    """The pages that fit, the best first. `wanted`: for each word of a text the terms that may stand for it, with what each
    is worth (1: the word itself); a page scores by the best of them, which is never rarer than the word itself."""
    live = [page.length for page in terms.pages if page]
    average = sum(live) / len(live) if live else 1.0
    dead = [number for number, page in enumerate(terms.pages) if page is None]
    found = []
    for word, group in wanted.items():
        ceiling = math.inf
        for term in sorted(group, key=lambda term: (term != word, term)):
            numbers, weights = terms.postings(term)
            count = len(numbers) - _among(dead, numbers)
            if count > 0:
                rarity = math.log(1 + (len(live) - count + 0.5) / (count + 0.5))
                ceiling = rarity if term == word else ceiling
                found.append((count, term, word, group[term] * min(rarity, ceiling), numbers, weights))
    found.sort(key=lambda entry: entry[:3])
    norms = [K1 * (1 - B + B * page.length / average) if page else 0.0 for page in terms.pages]
    scores: dict[int, float] = {}
    parts: dict[int, dict[str, float]] = {}
    opened = 0
    for count, _, word, worth, numbers, weights in found:
        opened += count
        entries: Iterable[tuple[int, int]] = zip(numbers, weights, strict=True)
        if opened > OPENED and scores:
            entries = _looked_up(_best(terms, scores), numbers, weights)
        for number, weight in entries:
            norm = norms[number]
            if not norm:
                continue
            part = worth * weight * (K1 + 1) / (weight + norm)
            mine = parts.setdefault(number, {})
            gain = part - mine.get(word, 0.0)
            if gain > 0:
                mine[word] = part
                scores[number] = scores.get(number, 0.0) + gain
    return [Ranked(number, scores[number], _heaviest(parts[number])) for number in _best(terms, scores)]


def _heaviest(parts: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(parts, key=lambda word: (-parts[word], word)))


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
