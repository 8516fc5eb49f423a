"""L0, the file that every session begins with (AGENTS.md, CLAUDE.md, GEMINI.md).

Four sections: Identity, Categories, Triggers, Critical Rules; of the last, each list item is one line and one tag. Tools
edit only the last, and nothing else of the file: whatever else a person keeps there stays to the byte. Who may edit it is
core.py's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nightschool.sek.prose import heading, lines, newline, shown
from nightschool.sek.rules import MENTION

IDENTITY, CATEGORIES, TRIGGERS, CRITICAL = SECTIONS = ("Identity", "Categories", "Triggers", "Critical Rules")
_ITEM = re.compile(r" {0,3}[-*+][ \t]+\S")


@dataclass(frozen=True, slots=True)
class Section:
    """A section: the lines `start` (after its heading) to `end` of the file, and their text."""

    title: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Critical:
    """One critical rule; `line` is its line in the file, as an editor counts."""

    tag: str | None
    text: str
    line: int


def parse(text: str) -> dict[str, Section]:
    """The sections that are there, by title; of several with one title the first."""
    rows = lines(text)
    said = shown(rows)
    heads = [(n, *found) for n, row in enumerate(rows) if said[n] and (found := heading(row.removeprefix("\ufeff")))]
    known = {title.casefold(): title for title in SECTIONS}
    sections: dict[str, Section] = {}
    for place, (n, level, said_title) in enumerate(heads):
        title = known.get(said_title.strip().rstrip(":").casefold())
        if title and title not in sections:
            end = next((other for other, deep, _ in heads[place + 1 :] if deep <= level), len(rows))
            sections[title] = Section(title, n + 1, end, "".join(rows[n + 1 : end]))
    return sections


def render(identity: str, categories: str, triggers: str, critical: Sequence[str] = (), name: str = "") -> str:
    """A new L0."""
    bodies = (identity, categories, triggers, "\n".join(critical))
    parts = [f"# {name}\n"] if name else []
    for title, body in zip(SECTIONS, bodies, strict=True):
        parts.append(f"## {title}\n\n{body.strip()}\n" if body.strip() else f"## {title}\n")
    return "\n".join(parts)


def critical(text: str) -> tuple[Critical, ...]:
    """The critical rules."""
    section = parse(text).get(CRITICAL)
    if section is None:
        return ()
    rows = lines(text)
    said = shown(rows)
    found = [(n, rows[n]) for n in range(section.start, section.end) if said[n] and _ITEM.match(rows[n])]
    tags = [MENTION.search(row) for _, row in found]
    return tuple(
        Critical(tag[1] if tag else None, row.strip(), n + 1) for (n, row), tag in zip(found, tags, strict=True)
    )


def with_critical(text: str, line: str) -> str:
    """L0 with one more critical rule, below the others; the section is made if it is not there."""
    end = newline(text)
    rows = lines(text)
    section = parse(text).get(CRITICAL)
    item = f"- {line}{end}"
    if section is None:
        head = text.rstrip()
        return (head + end + end if head else "") + f"## {CRITICAL}{end}{end}{item}"
    at = section.end
    while at > section.start and not rows[at - 1].strip():
        at -= 1
    if at and not rows[at - 1].endswith("\n"):
        rows[at - 1] += end
    is_list = any(found.line - 1 <= at - 1 for found in critical(text))
    before = [] if is_list and at > section.start else [end]
    after = [end] if at == section.end < len(rows) else []
    return "".join([*rows[:at], *before, item, *after, *rows[at:]])


def without_critical(text: str, tag: str) -> str:
    """L0 without the critical rules of this tag, each with the lines that go on with it."""
    rows = lines(text)
    section = parse(text).get(CRITICAL)
    for found in reversed(critical(text)):
        if found.tag == tag and section is not None:
            end = found.line
            while end < section.end and rows[end].startswith(("  ", "\t")) and rows[end].strip():
                end += 1
            del rows[found.line - 1 : end]
    return "".join(rows)
