"""A source -> its sections -> parts of the size of a page, each about one thing; nothing is cut that belongs together.

A section is what stands under a heading, its sub-sections included; a paragraph that is bold as a whole counts as the
lowest heading. A section of the size of a page stays whole. A larger one is taken apart at its headings, then between
blocks and between the items of a list, never in them; small neighbours are put together again. A pair of tags with
headings between is a section by the tag's name: its two lines stay together, with the first part of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nightschool.sek.blocks import Block, inside, items
from nightschool.sek.importer_read import Source

LARGE, GOOD, SMALL = 480, 320, 130
"""Tokens: a larger part is taken apart; small ones are joined with a neighbour up to the good size."""
LOWEST = 7
"""The level of a paragraph that is bold as a whole."""
_BOLD = re.compile(r"(?:\*\*|__)(?P<title>[^*_\n]+(?:[*_](?![*_])[^*_\n]+)*)(?:\*\*|__)[ \t]*[:：]?[ \t]*\n?")
_TAG_NAME = re.compile(r"<\s*([\w:.-]+)")
_LEADS = re.compile(r"[:：][*_` \t]*\Z")
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest thing that moves: a block, or one item of a list. `gap`: the blank lines above it."""

    kind: str
    text: str
    gap: str
    source: str
    start: int
    end: int
    tokens: int

    @property
    def leads(self) -> bool:
        """Whether it belongs to what follows: a heading, or a paragraph that ends with a colon."""
        return self.kind == "heading" or (self.kind == "paragraph" and bool(_LEADS.search(self.text.rstrip())))


@dataclass(slots=True)
class Section:
    """What stands under one heading."""

    title: str
    level: float
    heading: Unit | None = None
    own: list[Unit] = field(default_factory=list)
    children: list[Section] = field(default_factory=list)
    closing: Unit | None = None
    """The line that closes a pair of tags; `heading` is the one that opens it."""
    path: tuple[str, ...] = ()

    def units(self) -> Iterator[Unit]:
        """Everything in it, in order."""
        if self.heading:
            yield self.heading
        yield from self.own
        for child in self.children:
            yield from child.units()
        if self.closing:
            yield self.closing

    def sections(self) -> Iterator[Section]:
        """Itself and all below it."""
        yield self
        for child in self.children:
            yield from child.sections()


@dataclass(frozen=True, slots=True)
class Part:
    """A page to be: what it holds, and under which headings that stood."""

    source: str
    path: tuple[str, ...]
    titles: tuple[str, ...]
    """The sections that it holds, where the path alone does not tell."""
    units: tuple[Unit, ...]

    @property
    def tokens(self) -> int:
        """What it holds, in tokens."""
        return sum(unit.tokens for unit in self.units)

    @property
    def text(self) -> str:
        """What it holds, as it stood."""
        return "".join(_spaced(unit, n) for n, unit in enumerate(self.units))


def sections(source: Source, count: Count) -> Section:
    """The whole source as one section."""
    root = Section(source.name, -1)
    _grow(root, source.blocks, source.name, count)
    _name(root, ())
    return root


def parts(root: Section) -> list[Part]:
    """A section in parts."""
    return [part for part in _split(root, root.title) if part.units]


def plain(title: str) -> str:
    """A title without Markdown, pictures and a colon at its end."""
    bare = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    bare = re.sub(r"[*_`#]{2,}|`|\*|:\w+:", "", bare)
    bare = re.sub(r"[\U0001F000-\U0001FAFF\u2190-\u2BFF\uFE0F\u20E3\u200d]", "", bare)
    return " ".join(bare.split()).strip(" :：-–—") or " ".join(title.split())


def _spaced(unit: Unit, position: int) -> str:
    text = unit.text if unit.text.endswith("\n") else unit.text + "\n"
    return text if position == 0 else unit.gap + text


def _grow(root: Section, found: Sequence[Block], source: str, count: Count) -> None:
    """Put blocks under their headings."""
    stack, gap = [root], ""
    solid = [block for block in found if block.kind != "blank"]
    following = dict(zip(map(id, solid), solid[1:], strict=False))
    for block in found:
        if block.kind == "blank":
            gap = "\n" * min(block.text.count("\n"), 2)
            continue
        bold = _title(block, following.get(id(block)))
        if block.kind == "heading" or bold:
            level = LOWEST if bold else block.level
            while stack[-1].level >= level:
                stack.pop()
            section = Section(plain(bold["title"] if bold else block.title), level, _unit(block, gap, source, count))
            stack[-1].children.append(section)
            stack.append(section)
        elif block.kind == "tag" and (tagged := _tagged(block, gap, source, count)):
            stack[-1].children.append(tagged)
        else:
            stack[-1].own += _units(block, gap, source, count)
            if stack[-1].children:  # text after a tag section goes on in a section without a title
                stack[-1].children.append(Section("", LOWEST + 1, None, [stack[-1].own.pop()]))
        gap = ""


def _title(block: Block, after: Block | None) -> re.Match[str] | None:
    """A paragraph that is bold as a whole is a heading if there is something under it."""
    if block.kind != "paragraph" or after is None or after.kind in ("heading", "rule"):
        return None
    found = _BOLD.fullmatch(block.text)
    return None if found and after.kind == "paragraph" and _BOLD.fullmatch(after.text) else found


def _tagged(block: Block, gap: str, source: str, count: Count) -> Section | None:
    """A pair of tags as a section, if it is large and has headings; else it is one block."""
    if count(block.text) <= LARGE:
        return None
    opening, between, closing = inside(block)
    if not any(part.kind == "heading" for part in between):
        return None
    name = _TAG_NAME.search(opening)
    ends = block.start, block.end
    section = Section(name[1] if name else opening.strip(), LOWEST + 1)
    section.heading = Unit("heading", opening, gap, source, ends[0], ends[0], count(opening))
    section.closing = Unit("html", closing, "\n", source, ends[1], ends[1], count(closing))
    inner = Section(section.title, -1)
    _grow(inner, between, source, count)
    section.own, section.children = inner.own, inner.children
    return section


def _units(block: Block, gap: str, source: str, count: Count) -> Iterator[Unit]:
    if block.kind != "list":
        yield _unit(block, gap, source, count)
        return
    for n, item in enumerate(items(block)):
        yield _unit(item, gap if n == 0 else "", source, count, "item")


def _unit(block: Block, gap: str, source: str, count: Count, kind: str | None = None) -> Unit:
    return Unit(kind or block.kind, block.text, gap, source, block.start, block.end, count(block.text))


def _name(section: Section, path: tuple[str, ...]) -> None:
    """Give every section the titles above it; a title of its own file that all stands under says nothing."""
    section.path = path
    for child in section.children:
        alone = section.level == -1 and child.level == 1 and _is_only(section)
        below = path if alone or not child.title else (*path, child.title)
        _name(child, below)


def _is_only(root: Section) -> bool:
    return len(root.children) == 1 and not root.own


def _split(section: Section, source: str) -> list[Part]:
    everything = tuple(section.units())
    if sum(unit.tokens for unit in everything) <= LARGE or not everything:
        return [Part(source, section.path, (), everything)]
    head = [section.heading] if section.heading else []
    found = _chunks(section, source, [*head, *section.own])
    for child in section.children:
        found += _split(child, source)
    found = _joined(found, section)
    if section.closing and found:
        last = section.closing
        found[0] = Part(source, found[0].path, found[0].titles, (*found[0].units, last))
    return found


def _chunks(section: Section, source: str, units: Sequence[Unit]) -> list[Part]:
    """The section's own text in parts of a good size; what leads to something stays with it."""
    chunks: list[list[Unit]] = [[]]
    whole, size = sum(unit.tokens for unit in units), 0
    even = whole / -(-whole // LARGE) if whole else 0  # parts of one size, no scrap at the end
    for group in _groups(units):
        tokens = sum(unit.tokens for unit in group)
        if size and (size + tokens > LARGE or size + tokens / 2 > even):
            chunks.append([])
            size = 0
        chunks[-1] += group
        size += tokens
    return [Part(source, section.path, (), tuple(chunk)) for chunk in chunks if chunk]


def _groups(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    group: list[Unit] = []
    for unit in units:
        group.append(unit)
        if not unit.leads:
            yield group
            group = []
    if group:
        yield group


def _joined(found: Sequence[Part], section: Section) -> list[Part]:
    """Small parts together with the one before them; a heading without text always with what follows."""
    joined: list[Part] = []
    tags = {child.title for child in section.children if child.closing}
    for part in found:
        last = joined[-1] if joined else None
        if last and (_is_heading(last) or _fit(last, part, tags)):
            joined[-1] = _together(last, part, section)
        else:
            joined.append(part)
    return joined


def _fit(last: Part, part: Part, tags: set[str]) -> bool:
    """Whether two neighbours make one good page: small ones, and not one from inside of a pair of tags."""
    apart = last.path[:1] != part.path[:1] and bool(tags & {*last.path[:1], *part.path[:1]})
    return not apart and min(last.tokens, part.tokens) < SMALL and last.tokens + part.tokens <= GOOD


def _is_heading(part: Part) -> bool:
    return all(unit.kind == "heading" or unit.leads for unit in part.units)


def _together(last: Part, part: Part, section: Section) -> Part:
    if _is_heading(last) or last.path == part.path:
        return Part(last.source, part.path, part.titles, (*last.units, *part.units))
    depth = len(section.path)
    titles = (*(last.titles or last.path[depth : depth + 1]), *(part.titles or part.path[depth : depth + 1]))
    return Part(last.source, section.path, tuple(dict.fromkeys(titles)), (*last.units, *part.units))
