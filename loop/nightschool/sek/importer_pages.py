"""Parts -> pages: where each goes, what it is called, and its text.

A page is `wiki/CATEGORY/NAME.md`: first its heading path, `# FILE › Section › Subsection`, with a tag if it is a page of
rules (`# [GIT-001] ...`), then the part as it stood, and last where that was: `<!-- from FILE:12-40 -->`. Front matter of a
source stays at the top. Category, name and tag come from the headings, by code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nightschool.sek.importer_rules import is_rule
from nightschool.sek.importer_sections import Part, Unit

RULES, REFERENCES, ARCHITECTURE, WORKFLOWS = "rules", "references", "architecture", "workflows"
ALWAYS_PAGE = "wiki/rules/always.md"
_SAYS = (
    (
        RULES,
        re.compile(
            r"\b(?:rules?|guidelines?|conventions?|standards?|style|never|always|must|mandatory|don'?ts?|do not|critical"
            r"|best practices?|principles?|restrictions?|forbidden|security|enforcement|reminders?|requirements?)\b"
            r"|規則|规则|規範|规范|原則|原则|禁止|必須|不要|要求|правил|запрещ",
            re.I,
        ),
    ),
    (
        WORKFLOWS,
        re.compile(
            r"\b(?:workflows?|process|procedures?|set-?up|install\w*|usage|commands?|quick|steps?|release\w*|deploy\w*|build"
            r"|testing|tests?|how to|protocol|operations?|instructions?|pattern|commits?|pr|development|ci)\b"
            r"|流程|步驟|步骤|安裝|安装|使用|執行|执行|工作|方法|指令|命令",
            re.I,
        ),
    ),
    (
        ARCHITECTURE,
        re.compile(
            r"\b(?:architecture|structure|overview|design|data flow|components?|modules?"
            r"|system|foundation\w*|model|layers?)\b"
            r"|架構|架构|結構|结构|目錄|目录|總覽|总览|設計|设计",
            re.I,
        ),
    ),
)
_RULES_SHARE = 0.5
_TAG = re.compile(r"\[([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)\]")
_NOT_NAMES = frozenset(
    [
        "the",
        "a",
        "an",
        "and",
        "or",
        "of",
        "for",
        "to",
        "in",
        "on",
        "with",
        "how",
        "what",
        "is",
        "are",
        "non",
        "negotiable",
        "never",
        "always",
        "must",
        "rule",
    ]
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page that the import writes."""

    path: str
    title: str
    tag: str | None
    part: Part
    text: str


def pages(parts: Sequence[Part], taken: Iterable[str] = (), tags: Iterable[str] = ()) -> list[Page]:
    """A page for each part; no path of `taken` and no tag of `tags` is used again."""
    names = {path.casefold() for path in (*taken, ALWAYS_PAGE)}
    used = set(tags) | {tag for part in parts for tag in _TAG.findall(part.text)}
    found = []
    for part in parts:
        where = category(part)
        path = _free(f"wiki/{where}/{_name(part)}", names)
        tag = _free_tag(part, used) if where == RULES else None
        title = heading(part)
        found.append(Page(path, title, tag, part, _text(part, title, tag)))
    return found


def category(part: Part) -> str:
    """By its own headings, else by what it says, else by the headings above."""
    own = " / ".join(_own_titles(part))
    for name, expression in _SAYS:
        if expression.search(own):
            return name
    said = [unit for unit in part.units if unit.kind in ("paragraph", "item", "quote")]
    if said and sum(is_rule(unit.text) for unit in said) >= _RULES_SHARE * len(said):
        return RULES
    above = " / ".join(part.path[:-1])
    return next((name for name, expression in _SAYS if expression.search(above)), REFERENCES)


def heading(part: Part) -> str:
    """The heading path: the file, then at most three titles, each of at most 60 characters."""
    titles = [*part.path, *([", ".join(part.titles)] if part.titles else [])]
    shown = [title if len(title) <= 60 else title[:59].rstrip() + "…" for title in titles[-3:]]
    return " › ".join([part.source, *shown]) if shown else f"{part.source} ›"


def rules_page(source: str, lines: Sequence[str], title: str = "Rules for every task") -> str:
    """The page that every prompt loads: rules that hold everywhere and are too many for L0."""
    return f"# {source} › {title}\n\n" + "".join(f"{line}\n" for line in lines)


def _own_titles(part: Part) -> list[str]:
    own = [*(part.titles or part.path[-1:])]
    return own or [part.source]


def _text(part: Part, title: str, tag: str | None) -> str:
    front = [unit for unit in part.units if unit.kind == "front"]
    rest = Part(part.source, part.path, part.titles, tuple(unit for unit in part.units if unit.kind != "front"))
    first, last = min(unit.start for unit in part.units), max(unit.end for unit in part.units)
    top = "".join(unit.text for unit in front)
    mark = f"[{tag}] " if tag else ""
    body = f"{rest.text.rstrip()}\n\n" if rest.units else ""
    return f"{top}# {mark}{title}\n\n{body}<!-- from {part.source}:{first}-{last} -->\n"


def _name(part: Part) -> str:
    titles = part.titles[:2] or part.path[-1:]
    folder = part.source.split("/")[-2:-1]
    name = slug(" ".join([*folder, *titles]))
    return name or slug(part.source.rsplit(".", 1)[0]) or "page"


def slug(title: str) -> str:
    """A file name from a title: letters of any script and digits, in lower case, joined by hyphens."""
    normal = unicodedata.normalize("NFKC", title).casefold()
    words = [word for word in re.findall(r"[^\W_]+", normal) if word not in ("the", "a", "an", "of", "and", "for")]
    name = ""
    for word in words:
        if len(f"{name}-{word}".encode()) > 60:
            break
        name = f"{name}-{word}" if name else word
    return name or "".join(words)[:20]


def _free(path: str, names: set[str]) -> str:
    found, number = f"{path}.md", 2
    while found.casefold() in names:
        found, number = f"{path}-{number}.md", number + 1
    names.add(found.casefold())
    return found


def _free_tag(part: Part, used: set[str]) -> str:
    words = [
        word for title in _own_titles(part) for word in re.findall(r"[A-Za-z][A-Za-z0-9]+", title) if len(word) < 16
    ]
    stem = next((word.upper() for word in words if word.casefold() not in _NOT_NAMES), "RULE")
    number = next(n for n in range(1, 10_000) if f"{stem}-{n:03}" not in used)
    used.add(f"{stem}-{number:03}")
    return f"{stem}-{number:03}"


def core_tags(units: Sequence[Unit], used: Iterable[str]) -> list[str]:
    """A tag for each rule that holds everywhere; one that it has already stays."""
    known, found, number = set(used), [], 0
    for unit in units:
        own = _TAG.search(unit.text[:60])
        if own:
            found.append("")
            continue
        number = next(n for n in range(number + 1, 10_000) if f"CORE-{n:03}" not in known)
        found.append(f"CORE-{number:03}")
    return found
