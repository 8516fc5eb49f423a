"""L0 of an imported tree: who and in what language, the categories, how pages are found, and the rules for every task.

Its title and first paragraph are those of the first source; the rest is written by code, and kept within a budget of
tokens: rules that do not fit go to a page that every prompt loads, and topics are left out before rules are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nightschool.sek.importer_pages import Page, core_tags
from nightschool.sek.importer_rules import Global, one_line
from nightschool.sek.importer_sections import Section, Unit
from nightschool.sek.start import CONVEYOR

Count = Callable[[str], int]
SHORT = (
    "Every task: load what `wiki/_routing.md` names for its words (`nightschool route TASK`); nothing fits: read "
    "`wiki/_index.md`. The unexpected: `nightschool sek register`."
)
"""The Triggers section where the budget has no room for the whole conveyor."""
LONGEST_INTRODUCTION = 90
"""Tokens of a first paragraph that is taken into L0."""
TOPICS, LONGEST_TOPIC = 5, 40
SHARE = 0.9
"""How much of the budget an import fills: the rest is for rules to come."""
_URGENT = re.compile(r"(?:important|critical|mandatory|warning|note|key)(?: \w+)?(?: #\d+)?|重要|注意", re.I)
_SCRIPTS = (
    ("Japanese", re.compile("[\u3041-\u30ff]"), 0.05),
    ("Korean", re.compile("[\uac00-\ud7a3]"), 0.1),
    ("Chinese", re.compile("[\u4e00-\u9fff]"), 0.1),
    ("Russian", re.compile("[\u0400-\u04ff]"), 0.3),
)
_TRADITIONAL = re.compile("[這為個們來時說會對沒還過樣開後關實設應與體檔專導]")
_SIMPLIFIED = re.compile("[这为个们来时说会对没还过样开后关实设应与体档专导]")


@dataclass(frozen=True, slots=True)
class Opening:
    """What L0 begins with: the heading and the first paragraph of a source, as they stood."""

    title: Unit | None
    introduction: Unit | None

    @property
    def units(self) -> tuple[Unit, ...]:
        """What was taken."""
        return tuple(unit for unit in (self.title, self.introduction) if unit)


@dataclass(frozen=True, slots=True)
class Core:
    """The text of L0, and the rules that it had no room for, as lines."""

    text: str
    tokens: int
    kept: tuple[str, ...]
    over: tuple[str, ...]


def take_opening(root: Section) -> Opening:
    """The title and the first paragraph of a source, taken out of it."""
    top = root.children[0] if len(root.children) == 1 and not root.own else None
    if top is None or top.level != 1 or top.heading is None:
        return Opening(None, _take_introduction(root.own))
    title, top.heading = top.heading, None
    return Opening(title, _take_introduction(top.own))


def core(
    opening: Opening, rules: Sequence[Global], found: Sequence[Page], sample: str, budget: int, count: Count
) -> Core:
    """L0 within the budget. `sample` is text of the sources, for its language."""
    lines = rule_lines(rules)
    order = sorted(range(len(rules)), key=lambda n: (-rules[n].points, n))
    choices = [(len(rules), topics, CONVEYOR) for topics in range(TOPICS, -1, -1)]
    choices += [(room, topics, SHORT) for room in range(len(rules), -1, -1) for topics in range(TOPICS, -1, -1)]
    for room, topics, triggers in choices:
        kept = sorted(order[:room])
        text = _text(opening, [lines[n] for n in kept], found, sample, topics, triggers)
        if count(text) <= SHARE * budget or ((room, topics) == (0, 0) and triggers is SHORT):
            over = [line for n, line in enumerate(lines) if n not in kept]
            return Core(text, count(text), tuple(lines[n] for n in kept), tuple(over))
    raise AssertionError("unreachable")


def rule_lines(rules: Sequence[Global], used: Sequence[str] = ()) -> list[str]:
    """The rules, one line and tag each."""
    tags = core_tags([rule.unit for rule in rules], used)
    return [f"- [{tag}] {rule.line}" if tag else f"- {rule.line}" for tag, rule in zip(tags, rules, strict=True)]


def language(sample: str) -> str:
    """The language that a text is written in, by its script."""
    letters = sum(char.isalpha() for char in sample) or 1
    for name, expression, share in _SCRIPTS:
        if len(expression.findall(sample)) > share * letters:
            if name != "Chinese":
                return name
            traditional = len(_TRADITIONAL.findall(sample)) >= len(_SIMPLIFIED.findall(sample))
            return "Traditional Chinese" if traditional else "Simplified Chinese"
    return (
        "English" if sum(char.isascii() and char.isalpha() for char in sample) > 0.9 * letters else "their own language"
    )


def _take_introduction(own: list[Unit]) -> Unit | None:
    if own and own[0].kind == "paragraph" and not own[0].leads and own[0].tokens <= LONGEST_INTRODUCTION:
        return own.pop(0)
    return None


def _text(
    opening: Opening, rules: Sequence[str], found: Sequence[Page], sample: str, topics: int, triggers: str
) -> str:
    title = opening.title.text.strip() + "\n\n" if opening.title else ""
    who = (
        one_line(opening.introduction.text) if opening.introduction else "You work on this project by the rules below."
    )
    written = language(sample)
    names = sorted({page.path.split("/")[1] for page in found})
    categories = "".join(_category(name, found, topics) for name in names)
    return (
        f"{title}## Identity\n\n{who}\n"
        f"Response language: the user's; these instructions are in {written}.\n\n"
        f"## Categories\n\n{categories}\n"
        "## Triggers\n\n"
        f"{triggers}\n\n"
        "## Critical Rules\n\n" + "".join(f"{line}\n" for line in rules)
    )


def _category(name: str, found: Sequence[Page], topics: int) -> str:
    here = [page for page in found if page.path.startswith(f"wiki/{name}/")]
    shown = list(dict.fromkeys(_topic(page) for page in here))[:topics]
    about = f": {', '.join(shown)}" + (", …" if len(here) > len(shown) else "") if shown else ""
    return f"- wiki/{name}/ ({len(here)}){about}\n"


def _topic(page: Page) -> str:
    """What a page is about in a few words: its last title, without what comes before a colon if that is only urgent."""
    last = page.title.rsplit(" › ", 1)[-1].removesuffix(" ›")
    pieces = [piece.strip() for piece in re.split(r"[:：(（—,，]", last) if piece.strip()]
    said = [piece for piece in pieces if not _URGENT.fullmatch(piece)] or pieces or [last]
    return said[0] if len(said[0]) <= LONGEST_TOPIC else said[0][: LONGEST_TOPIC - 1].rsplit(" ", 1)[0] + "…"
