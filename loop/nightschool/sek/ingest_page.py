"""What a model says of a part of a source -> a page, its trigger and its line of the index, by code.

    ---
    summary: "one line, which the index shows"
    source: raw/sources/guide.9f86d081884c.md
    sha256: <of the source>
    lines: "12-40"
    model: <alias>
    ---
    # Title

    - What the source says, in the model's words.

    ~~~ quote 14-16
    the source's own words
    ~~~

A claim is what the model wrote; the quote below it is copied by code from the lines named. It stands in a fence, so that no
heading, link, tag or comment of a source is taken for one of the page. Keywords are words of the part that no other
trigger has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nightschool.disk import frontmatter
from nightschool.disk.errors import Problem
from nightschool.sek.importer_pages import ALWAYS_PAGE, slug
from nightschool.sek.importer_read import Source
from nightschool.sek.importer_triggers import Topic, is_term, keywords
from nightschool.sek.prose import one_line
from nightschool.sek.routing import Trigger
from nightschool.sek.sources import place
from nightschool.sek.stopwords import STOPWORDS
from nightschool.sek.tree import WIKI
from nightschool.sek.units import Unit
from nightschool.sek.words import phrase, surfaces, words

BY = "ingest"
"""Who writes the triggers."""
MOST_TERMS = 24
"""Words that the model may choose keywords from."""
QUOTE = re.compile(r"^(~{3,}) quote (\d+)-(\d+)\n(.*?)\n\1$", re.M | re.S)
_LINK = re.compile(r"(?<=\])(?=\()|(?<=\[)(?=\[)")
_MARKS = re.compile(r"^[^\w\"'(\[]+")


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk of a source."""

    source: Source
    units: tuple[Unit, ...]

    @property
    def span(self) -> tuple[int, int]:
        """Its characters in the source."""
        return self.units[0].start, self.units[-1].end

    @property
    def lines(self) -> tuple[int, int]:
        """Its first and its last line."""
        return self.units[0].first, self.units[-1].last

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(unit.text for unit in self.units)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a unit of the source says."""

    says: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Draft:
    """A page as the model proposes it."""

    title: str
    category: str
    summary: str
    claims: tuple[Claim, ...]
    keywords: tuple[str, ...]


def page(part: Part, draft: Draft, model: str, count: Callable[[str], int], budget: int) -> str:
    """The text of the page, with as many of the claims as a route may load (`budget` tokens), and one at least."""
    text = _page(part, draft, model)
    while count(text) > budget and len(draft.claims) > 1:
        draft = replace(draft, claims=draft.claims[:-1])
        text = _page(part, draft, model)
    return text


def path(draft: Draft, part: Part, taken: Iterable[str]) -> str:
    """Where the page goes: a name that no other has, of letters and digits, in a category that is there."""
    names = {each.casefold() for each in (*taken, ALWAYS_PAGE)}
    stem = slug(said(draft.title)) or slug(part.source.name.rpartition("/")[2].partition(".")[0]) or "page"
    base = f"{WIKI}/{draft.category}/{stem}"
    tried = (f"{base}.md", *(f"{base}-{n}.md" for n in range(2, 10_000)))
    return next(each for each in tried if each.casefold() not in names)


def trigger(draft: Draft, where: str, offered: Sequence[str], triggers: Sequence[Trigger]) -> Trigger | None:
    """What routes to the page: the keywords chosen that are still free, else the first of those offered; None without."""
    taken = taken_by(triggers)
    free = [word for word in draft.keywords if phrase(word) not in taken]
    free = free or [word for word in offered if phrase(word) not in taken][:1]
    if not free:
        return None
    ids = {each.id for each in triggers}
    stem = where.rpartition("/")[2].removesuffix(".md")[:56].strip("-") or "page"
    name = next(each for each in (stem, *(f"{stem}-{n}" for n in range(2, 10_000))) if each not in ids)
    return Trigger(name, tuple(free), (where,), by=BY)


def taken_by(triggers: Iterable[Trigger]) -> set[tuple[str, ...]]:
    """The keywords that lead somewhere already, as their words."""
    return {phrase(word) for each in triggers for word in each.keywords}


def terms(text: str, taken: Collection[tuple[str, ...]]) -> list[str]:
    """Words that stand in a text and may be keywords, the most telling first."""
    spoken = f" {' '.join(phrase(text))} "
    spelled = surfaces(text)
    common = [spelled[word] for word, _ in Counter(words(text)).most_common() if word in spelled and _tells(word)]
    found: dict[tuple[str, ...], str] = {}
    for term in (*keywords([Topic("", (), text)])[""], *common):
        key = phrase(term)
        if is_term(term, key) and key not in taken and f" {' '.join(key)} " in spoken:
            found.setdefault(key, term)
    return list(found.values())[:MOST_TERMS]


def opened(text: str) -> tuple[dict[str, Any], str]:
    """The front matter and the body of a page; a front matter that cannot be read is part of the body."""
    try:
        return frontmatter.split(text)
    except Problem:
        return {}, text


def said(text: str) -> str:
    """A line of a model's, made fit to stand on a page: it forges no tag, comment, link, heading or fence."""
    plain = one_line(text, "a line", 10_000)
    return _MARKS.sub("", _LINK.sub(" ", plain)).strip()


def _page(part: Part, draft: Draft, model: str) -> str:
    front = {
        "summary": said(draft.summary) or _named(part),
        "source": place(part.source),
        "sha256": part.source.sha256,
        "lines": "{}-{}".format(*part.lines),
        "model": model,
    }
    body = [f"# {said(draft.title) or _named(part)}\n", *map(_claim, draft.claims)]
    return frontmatter.join(front, "\n".join(body))


def _claim(claim: Claim) -> str:
    quote = claim.unit.quote
    fence = "~" * max([3, *(len(run) + 1 for run in re.findall("~+", quote))])
    says = said(claim.says) or "In its own words:"
    return f"- {says}\n\n{fence} quote {claim.unit.first}-{claim.unit.last}\n{quote}\n{fence}\n"


def _named(part: Part) -> str:
    return said(part.source.name.rpartition("/")[2]) or "A source"


def _tells(word: str) -> bool:
    return len(word) > 3 and word not in STOPWORDS
