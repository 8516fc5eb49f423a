"""The keywords of all triggers, ready to be found in a text word for word.

A keyword matches where its words follow each other in the text, in any inflection and spelled as one identifier or apart:
`user name` is in `getUserName`, `ui` is not in `build`. The words of the keywords are kept in the term cache, so that two
thousand triggers need neither YAML nor a stemmer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from nightschool.sek.terms import Terms
from nightschool.sek.tree import ROUTING, Tree
from nightschool.sek.triggers import ALWAYS, Routing, Trigger
from nightschool.sek.words import is_sign, phrase, terms, words


@dataclass(frozen=True, slots=True)
class Match:
    """A trigger and the keyword that was found."""

    trigger: Trigger
    keyword: str


class Keywords:
    """The triggers of a tree, by the first word of each keyword."""

    def __init__(self, routing: Routing, phrases: list[list[tuple[str, ...]]]) -> None:
        """`phrases`: for each trigger the words of each of its keywords."""
        self.routing = routing
        self.always = tuple(trigger for trigger in routing.triggers if trigger.always)
        self._starts: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {}
        self._pages: dict[tuple[str, ...], set[str]] = {}
        for number, (trigger, found) in enumerate(zip(routing.triggers, phrases, strict=True)):
            for place, each in enumerate(found):
                if each and trigger.keywords[place] != ALWAYS:
                    self._starts.setdefault(each[0], []).append((number, place, each))
                    self._pages.setdefault(each, set()).update(trigger.load)
        self._phrases = phrases
        self._places = {trigger.id: number for number, trigger in enumerate(routing.triggers)}

    @classmethod
    def load(cls, tree: Tree, index: Terms) -> Keywords:
        """From the cache if it is in step with _routing.md, else from that; the cache is told."""
        stamp = tree.stamp(ROUTING)
        cached = index.routing
        if stamp is not None and cached.get("stamp") == stamp:
            try:
                return cls(*_read(cached))
            except (KeyError, TypeError, ValueError):
                pass  # made by hand, or by another version
        routing = tree.routing()
        phrases = [[phrase(keyword) for keyword in trigger.keywords] for trigger in routing.triggers]
        index.routing = {"stamp": stamp, **_record(routing, phrases)}
        index.changed = True
        return cls(routing, phrases)

    def match(self, text: str) -> list[Match]:
        """What every text matches, then each trigger once for each of its keywords in the text, in the table's order."""
        found = {(number, place) for number, place in self._found(text)}
        matches = [Match(trigger, ALWAYS) for trigger in self.always]
        triggers = self.routing.triggers
        return matches + [Match(triggers[n], triggers[n].keywords[place]) for n, place in sorted(found)]

    def rarity(self, match: Match) -> float:
        """Near 1 for a keyword that leads to one page, less the more pages it leads to; more for one of several words."""
        if match.keyword == ALWAYS:
            return 0.0
        words_of = self._words_of(match)
        pages = len(self._pages.get(words_of, ())) or 1
        return (1 + 0.5 * (min(len(words_of), 3) - 1)) / math.sqrt(pages)

    def _words_of(self, match: Match) -> tuple[str, ...]:
        place = match.trigger.keywords.index(match.keyword)
        return self._phrases[self._places[match.trigger.id]][place]

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        sequence = phrase(text)
        for start, word in enumerate(sequence):
            for number, place, wanted in self._starts.get(word, ()):
                if sequence[start : start + len(wanted)] == wanted:
                    yield number, place
        wholes = (set(words(text)) | {term for term in terms(text) if is_sign(term)}) - set(sequence)
        for word in wholes:  # `userName` in the text, `username` in the table
            for number, place, wanted in self._starts.get(word, ()):
                if wanted == (word,):
                    yield number, place


def _record(routing: Routing, phrases: list[list[tuple[str, ...]]]) -> dict[str, object]:
    return {
        "settings": [routing.l0_budget, routing.budget, routing.expire_days, routing.bootstrap],
        "triggers": [list(asdict(trigger).values()) for trigger in routing.triggers],
        "phrases": phrases,
    }


def _read(cached: dict[str, object]) -> tuple[Routing, list[list[tuple[str, ...]]]]:
    rows, phrases, settings = cached["triggers"], cached["phrases"], cached["settings"]
    if not isinstance(rows, list) or not isinstance(phrases, list) or not isinstance(settings, list):
        raise ValueError("another form")
    triggers = tuple(Trigger(row[0], tuple(row[1]), tuple(row[2]), *row[3:]) for row in rows)
    l0_budget, budget, expire_days, bootstrap = settings
    return (
        Routing(triggers, l0_budget, budget, expire_days, bootstrap),
        [[tuple(each) for each in found] for found in phrases],
    )
