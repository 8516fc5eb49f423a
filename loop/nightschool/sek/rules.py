"""Rules: tagged blocks of the pages of L2.

A rule is a heading with what stands below it, a list item, a table row or a paragraph that begins with a tag in brackets,
`[XXX-001]`; where no block begins with that tag, the one that ends with it. Everything else that names a tag is a mention.
Which page a new rule goes to is lifecycle.py.

A rule that was promoted from the inbox:

    ## [TAG] topic

    Expected: ...
    Got: ...
    Where: ...

    Evidence: 2026-01-31 (session a), 2026-02-02 (session b)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nightschool.disk.errors import Problem
from nightschool.sek.inbox import Entry
from nightschool.sek.prose import heading, lines, newline, shown
from nightschool.sek.tree import Tree
from nightschool.sek.words import content, signature, similarity

TAG = re.compile(r"[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+")
LONGEST_TAG = 64
ALIKE = 0.75
"""From this similarity on, two rules say the same."""
_LINK = r"(?!\(|:[ \t]*(?:<|https?://|\.{0,2}/|#))"
MENTION = re.compile(rf"\[({TAG.pattern})\]{_LINK}")
_HEAD = re.compile(rf" {{0,3}}#{{1,6}}[ \t]+[*_`]*{MENTION.pattern}")
_ITEM = re.compile(rf"([ \t]*)(?:[-*+]|\d{{1,9}}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?[*_`~]*{MENTION.pattern}")
_ROW = re.compile(rf"[ \t]*\|[ \t]*[*_`]*{MENTION.pattern}")
_PARAGRAPH = re.compile(rf" {{0,3}}[*_`>]*[ \t]?[*_`]*{MENTION.pattern}")
_LAST = re.compile(rf"\[({TAG.pattern})\][*_`.]*[ \t]*$")
_BULLET = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+")
_EMPTY = re.compile(r"\*\*\*\*|____|``|\*\*|__")
"""What is left of the emphasis around a tag."""
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_LABELS = re.compile(r"^(?:Expected|Got|Where|Evidence|Root cause|Fix):[ \t]*", re.M | re.I)
_UNSAID = re.compile(r"^(?:Evidence|Where):.*$", re.M | re.I)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its lines `start` to `end` (counted from 0, `end` excluded) of the page `path`."""

    tag: str
    path: str
    text: str
    start: int
    end: int
    leads: bool = True
    """Whether the tag begins the block; else it ends it."""

    @property
    def line(self) -> int:
        """Its line, as an editor counts."""
        return self.start + 1

    @property
    def title(self) -> str:
        """Its first line without marks and tag."""
        first = _BULLET.sub("", self.text.strip().split("\n")[0], count=1)
        return " ".join(_EMPTY.sub("", MENTION.sub("", first)).strip(" \t\r#>*_`|:").split())

    @property
    def essence(self) -> str:
        """What it says, without tag, labels, evidence and place."""
        return essence(self.text)


def essence(text: str) -> str:
    """The words of a rule that matter when two are compared."""
    return " ".join(MENTION.sub("", _LABELS.sub("", _UNSAID.sub("", text))).replace("#", " ").split())


def find(text: str, path: str) -> tuple[Rule, ...]:
    """The rules of one page, in order."""
    rows = lines(text)
    said = shown(rows)
    leads = {n: tag for n in range(len(rows)) if said[n] and (tag := _leading(rows, said, n))}
    found = [Rule(tag, path, *_block(rows, n, _extent(rows, said, n, leads))) for n, tag in leads.items()]
    inside = {n for rule in found for n in range(rule.start, rule.end)}
    for n in range(len(rows)):
        if said[n] and n not in inside and (last := _LAST.search(rows[n].rstrip("\r\n"))):
            start = _first(rows, said, n)
            found.append(Rule(last[1], path, "".join(rows[start : n + 1]), start, n + 1, leads=False))
    return tuple(sorted(choose(found), key=lambda rule: rule.start))


def choose(found: Iterable[Rule]) -> list[Rule]:
    """Those blocks that are rules: what ends with a tag is a mention if elsewhere a block leads with it."""
    rules = list(found)
    led = {rule.tag for rule in rules if rule.leads}
    return [rule for rule in rules if rule.leads or rule.tag not in led]


def every(tree: Tree) -> list[Rule]:
    """All rules of a tree. A page that cannot be read is the linter's to tell; it has none."""
    found: list[Rule] = []
    for path in tree.pages():
        try:
            text = tree.read(path)
        except Problem:
            continue
        if "[" in text:
            found += find(text, path)
    return choose(found)


def mentions(text: str) -> list[tuple[int, str]]:
    """Every tag in brackets, with its line."""
    return [(n, match[1]) for n, row in enumerate(lines(text), start=1) for match in MENTION.finditer(row)]


def check_tag(tag: str) -> str:
    """The tag without its brackets; a Problem if it is none."""
    plain = tag.strip().removeprefix("[").removesuffix("]")
    if not TAG.fullmatch(plain) or len(plain) > LONGEST_TAG:
        raise Problem(f"{tag!r} is no tag", "write it as in API-RATE-001: capitals and digits with hyphens between")
    return plain


def new_tag(topic: str, stem: str, taken: Iterable[str]) -> str:
    """The next free tag for a topic: its first two words and a number; `stem` where it has no plain letters."""
    found = [word.upper()[:16] for word in re.findall(r"[A-Za-z][A-Za-z0-9]+", topic) if content(word)]
    name = "-".join(found[:2]) or stem
    known = set(taken)
    return next(tag for n in range(1, 100_000) if (tag := f"{name}-{n:03}") not in known)


def same(text: str, rules: Iterable[Rule]) -> Rule | None:
    """The rule that says what `text` says, if there is one; of several the nearest."""
    wanted = signature(text)
    near = [(similarity(text, rule.essence), rule) for rule in rules if _could(wanted, rule)]
    best = max(near, key=lambda pair: pair[0], default=None)
    return best[1] if best and best[0] >= ALIKE else None


def render(tag: str, entries: Sequence[Entry]) -> str:
    """The rule that drafts of one topic become; of drafts that say the same, the one that says most is told."""
    told: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: -sum(map(bool, (entry.expected, entry.got, entry.where)))):
        if all(similarity(entry.essence, other.essence) < ALIKE for other in told):
            told.append(entry)
    bodies = []
    for entry in sorted(told, key=entries.index):
        fields = {"Expected": entry.expected, "Got": entry.got, "Where": entry.where}
        bodies.append("".join(f"{name}: {said}\n" for name, said in fields.items() if said))
    days = [f"{entry.day or 'undated'}" + (f" (session {entry.session})" if entry.session else "") for entry in entries]
    evidence = f"Evidence: {', '.join(dict.fromkeys(days))}\n"
    return "\n".join([f"## [{tag}] {entries[0].topic}\n", *filter(None, bodies), evidence])


def added(page: str, block: str) -> str:
    """A page with a rule at its end."""
    end = newline(page)
    head = page.rstrip()
    return (head + end + end if head else "") + block.replace("\n", end)


def removed(page: str, rules: Iterable[Rule]) -> str:
    """A page without these rules of its; "" if nothing but headings is left."""
    rows = lines(page)
    for rule in sorted(rules, key=lambda rule: -rule.start):
        del rows[rule.start : rule.end]
        while rule.start < len(rows) and not rows[rule.start].strip():
            if rule.start and rows[rule.start - 1].strip():
                break  # one blank line stays between two blocks, none at the top
            del rows[rule.start]
    said = shown(rows)
    left = [row for n, row in enumerate(rows) if not said[n] or (row.strip() and not heading(row))]
    return "".join(rows) if any(not _is_front(rows, said, row) for row in left) else ""


def _could(wanted: frozenset[str], rule: Rule) -> bool:
    """A cheap look whether two texts can be alike at all: one is not many times as long as the other."""
    size = len(rule.text.split())
    return bool(wanted) and size >= len(wanted) // 4 and size <= 40 * len(wanted)


def _leading(rows: list[str], said: list[bool], n: int) -> str | None:
    """The tag that the block beginning at this line begins with."""
    row = rows[n]
    for pattern in (_HEAD, _ITEM, _ROW):
        if match := pattern.match(row):
            return match[match.lastindex or 1]
    begins = n == 0 or not said[n - 1] or not rows[n - 1].strip() or heading(rows[n - 1]) is not None
    match = _PARAGRAPH.match(row) if begins else None
    return match[1] if match else None


def _extent(rows: list[str], said: list[bool], start: int, leads: Iterable[int]) -> int:
    """Where a rule ends: with its block, or where the next one begins."""
    limit = min((n for n in leads if n > start), default=len(rows))
    level = _level(rows, start)
    if level:
        ends = (n for n in range(start + 1, limit) if said[n] and 0 < _level(rows, n) <= level)
        return next(ends, limit)
    if _ROW.match(rows[start]):
        return start + 1
    bullet = _BULLET.match(rows[start])
    indent = len(bullet[1].expandtabs(4)) if bullet else 0
    for n in range(start + 1, limit):
        row = rows[n]
        depth = len(row.expandtabs(4)) - len(row.expandtabs(4).lstrip())
        new = _BULLET.match(row) is not None and depth <= indent
        after_blank = not rows[n - 1].strip() and (bullet is None or depth <= indent)
        if row.strip() and (heading(row) or new or after_blank):
            return n
        if bullet is None and not row.strip():
            return n
    return limit


def _level(rows: list[str], n: int) -> int:
    """The level of the heading at this line, underlined ones too; 0 if it is none."""
    if found := heading(rows[n]):
        return found[0]
    below = rows[n + 1].rstrip("\r\n") if n + 1 < len(rows) else ""
    if rows[n].strip() and not _BULLET.match(rows[n]) and (match := _UNDERLINE.fullmatch(below)):
        return 1 if match[1][0] == "=" else 2
    return 0


def _block(rows: list[str], start: int, end: int) -> tuple[str, int, int]:
    """The text of a block without the blank lines after it, and where it stands."""
    while end > start + 1 and not rows[end - 1].strip():
        end -= 1
    return "".join(rows[start:end]), start, end


def _first(rows: list[str], said: list[bool], last: int) -> int:
    """The first line of the block that ends at a line."""
    start = last
    while (
        start > 0
        and said[start - 1]
        and rows[start - 1].strip()
        and heading(rows[start - 1]) is None
        and not _BULLET.match(rows[start])
        and not rows[start].lstrip().startswith(("|", "#"))
    ):
        start -= 1
    return start


def _is_front(rows: list[str], said: list[bool], row: str) -> bool:
    """Whether a line belongs to the front matter, which alone is no content."""
    count = next((n for n, shown_ in enumerate(said) if shown_), len(said))
    return rows[:1] != [] and rows[0].rstrip() == "---" and row in rows[:count]
