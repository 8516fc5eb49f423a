"""Checks of each file by itself: links that lead nowhere, fences without an end, pages without text, L0 over its budget.

A page that was imported (`<!-- from FILE:1-9 -->`) keeps its words, so what was wrong in the source is a warning there, and
its links count from where the source stood as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from urllib.parse import unquote

from nightschool.disk.errors import Problem
from nightschool.sek import bootstrap
from nightschool.sek.blocks import Block, blocks
from nightschool.sek.lint_base import Finding
from nightschool.sek.lint_secrets import secrets
from nightschool.sek.tree import Tree

FROM = re.compile(r"^<!-- from (?P<source>[^\n>]+?):(?P<first>\d+)-(?P<last>\d+) -->[ \t]*$", re.M)
_LINK = re.compile(
    r"(?<!\\)!?\[(?:[^\[\]]|\[[^\[\]]*\]){0,500}\]\(\s*<?([^()\s<>]{1,500}(?:\([^()\s]*\)[^()\s<>]*)?)>?(?:\s+[^)]*)?\)"
)
_WIKI_LINK = re.compile(r"(?<!\\)\[\[([^\[\]|#\n]{1,200})(?:[#|][^\[\]\n]*)?\]\]")
_CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#|mailto:", re.I)


def page(tree: Tree, path: str) -> Iterator[Finding]:
    """Checks of one page."""
    try:
        text = tree.read(path)
    except Problem as problem:
        line = re.match(rf"{re.escape(path)}:(\d+):", problem.what)
        number = int(line[1]) if line else 1
        yield Finding(path, number, "unreadable", problem.what, "no agent can read it", problem.advice)
        return
    yield from content(tree, path, text)


def content(tree: Tree, path: str, text: str) -> Iterator[Finding]:
    """Checks of a page's text."""
    imported = FROM.search(text)
    if not FROM.sub("", text).strip():
        yield Finding(
            path, 1, "empty", "the page says nothing", "it costs a look and gives nothing", "remove it", "warning"
        )
    found = blocks(text)
    yield from _links(tree, path, found, imported["source"] if imported else None)
    yield from (_torn(path, block) for block in found if block.torn)
    yield from secrets(path, text)


def core(tree: Tree, count: Callable[[str], int]) -> Iterator[Finding]:
    """Checks of L0."""
    routing = tree.routing()
    path = routing.bootstrap
    if not tree.has(path):
        what = f"{path} is not there, but _routing.md calls it L0"
        yield Finding(
            path, 1, "no-l0", what, "no session begins with the rules", "nightschool sek init, or set bootstrap:"
        )
        return
    text = tree.read(path)
    tokens = count(text)
    if tokens > routing.l0_budget:
        what = f"L0 has {tokens} tokens, its budget is {routing.l0_budget}"
        advice = "move text to a page with a trigger, or raise l0_budget in wiki/_routing.md"
        yield Finding(path, 1, "l0-budget", what, "every session pays for it", advice)
    missing = [title for title in bootstrap.SECTIONS if title not in bootstrap.parse(text)]
    if missing:
        what = f"L0 has no section {', '.join(missing)}"
        advice = f"add `## {missing[0]}`"
        yield Finding(path, 1, "l0-section", what, "agents and tools look for the four sections", advice, "warning")
    yield from _links(tree, path, blocks(text), None)
    yield from secrets(path, text)


def _torn(path: str, block: Block) -> Finding:
    what, why = "a code fence that is never closed", "all below it is shown as code"
    return Finding(path, block.start, "torn-fence", what, why, "close it with a line of the same marks", "warning")


def _links(tree: Tree, path: str, found: list[Block], source: str | None) -> Iterator[Finding]:
    for block in found:
        if block.kind in ("fence", "code", "front", "blank"):
            continue
        for offset, line in enumerate(block.text.split("\n")):
            bare = _CODE_SPAN.sub(lambda match: " " * len(match[0]), line)
            targets = [(match[1], False) for match in _LINK.finditer(bare)]
            targets += [(match[1], True) for match in _WIKI_LINK.finditer(bare)]
            for target, wiki in targets:
                if not _leads(tree, path, target, source, wiki):
                    yield _dead(path, block.start + offset, target, source)


def _dead(path: str, line: int, target: str, source: str | None) -> Finding:
    what = f"the link to {target} leads nowhere" + (f" (as it did in {source})" if source else "")
    advice = "mend or remove the link"
    return Finding(
        path, line, "dead-link", what, "an agent follows it in vain", advice, "warning" if source else "error"
    )


def _leads(tree: Tree, path: str, target: str, source: str | None, wiki: bool) -> bool:
    """Whether a link leads somewhere: from the page, from the source of an import, or (`[[name]]`) to such a page."""
    if _OUTSIDE.match(target):
        return True
    plain = unquote(target).split("#")[0].split("?")[0]
    if not plain:
        return True
    if wiki:
        names = {PurePosixPath(each).stem for each in tree.pages()} | set(tree.pages())
        return plain in names or PurePosixPath(plain).stem in names
    bases = [PurePosixPath(path).parent, *([PurePosixPath(source).parent, PurePosixPath()] if source else [])]
    return any(_exists(tree, base, plain) for base in bases)


def _exists(tree: Tree, base: PurePosixPath, target: str) -> bool:
    parts: list[str] = [] if target.startswith("/") else [part for part in base.parts if part != "."]
    for part in target.strip("/").split("/"):
        if part == "..":
            if not parts:
                return False
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    try:
        return tree.has("/".join(parts)) or tree.inside("/".join(parts)).exists() if parts else True
    except Problem:
        return False
