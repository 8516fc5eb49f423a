"""What two sources both say, word for word: kept where it stands first, and noted where else it stood.

Short lines, such as labels, repeat without being copies. A line that leads to a list (`Always run:`) goes only if what it
leads to goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nightschool.sek.importer_check import COPY, normal
from nightschool.sek.importer_sections import Section, Unit


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A paragraph that an earlier place has already; it is kept there only."""

    source: str
    line: int
    first_source: str
    first_line: int
    text: str


def drop(roots: Sequence[Section]) -> list[Duplicate]:
    """Take out of each source what an earlier one has."""
    seen: dict[str, Unit] = {}
    found: list[Duplicate] = []
    for root in roots:
        new: dict[str, Unit] = {}
        for section in root.sections():
            section.own, gone = _without(section.own, seen)
            found += gone
            for unit in section.own:
                new.setdefault(normal(unit.text), unit)
        seen = {**new, **seen}
    return found


def _without(units: Sequence[Unit], seen: Mapping[str, Unit]) -> tuple[list[Unit], list[Duplicate]]:
    """The units that are new, and the copies, decided from the last to the first."""
    kept: list[Unit] = []
    gone: list[Duplicate] = []
    follows_kept = False
    for unit in reversed(units):
        key = normal(unit.text)
        first = seen.get(key) if len(key) >= COPY else None
        if first is None or (unit.leads and follows_kept):
            kept.insert(0, unit)
            follows_kept = True
        else:
            gone.insert(0, Duplicate(unit.source, unit.start, first.source, first.start, unit.text.strip()))
            follows_kept = False
    return kept, gone
