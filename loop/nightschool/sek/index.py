"""The index `wiki/_index.md`: every page with one line, for when no trigger fits; small, whatever the size of the wiki.

`- [path](path): what the page is about`, by category. Past 300 tokens it names the categories with their counts instead, and
each category has an `_index.md` of its own with the lines. The first line says whose index it is, for the night keeps
another one, `wiki/index.md`. Rendering only; what is made here is written by others, and only where code wrote it before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from urllib.parse import quote

from nightschool.disk.errors import Problem
from nightschool.sek.tree import INDEX, WIKI, Tree

MOST_TOKENS = 300
MOST_LINE = 90
"""Characters of the line about a page."""
MARK = "<!-- SEK index (L1) of the pages below wiki/: written by nightschool, read when no trigger fits -->"
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$", re.M)
_FRONT = re.compile(r"\A---[ \t]*\r?\n.*?^---[ \t]*\r?$", re.S | re.M)
_NOISE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]|<!--.*?-->|[*_`#>]+|!?\[(?=[^\]]*\]\()|\]\([^)]*\)", re.S)


def render(tree: Tree, count: Callable[[str], int], pages: Iterable[str] | None = None) -> dict[str, str]:
    """Every index file of the tree by its path; `count` tells tokens, `pages` are all pages (default: those on disk)."""
    lines: dict[str, list[str]] = {}
    for path in tree.pages() if pages is None else pages:
        parts = PurePosixPath(path).parts
        category = parts[1] if len(parts) > 2 else ""
        lines.setdefault(category, []).append(f"- [{path}]({_link(path)}): {_about_page(tree, path)}")
    whole = _whole(lines)
    if count(whole) <= MOST_TOKENS:
        return {INDEX: whole}
    files = {
        f"{WIKI}/{category}/_index.md": f"{MARK}\n# {category}\n\n" + "\n".join(found) + "\n"
        for category, found in sorted(lines.items())
        if category
    }
    return {INDEX: _counts(lines), **files}


def outdated(tree: Tree, count: Callable[[str], int]) -> dict[str, bytes]:
    """The index files to write: those that code wrote before, or that are not there, and that say something else now."""
    changed = {}
    for path, text in render(tree, count).items():
        if not tree.has(path) or (is_ours(tree, path) and tree.read(path) != text):
            changed[path] = text.encode()
    return changed


def is_ours(tree: Tree, path: str) -> bool:
    """Whether code wrote that index, and may write it again."""
    return tree.has(path) and tree.read(path).startswith(MARK)


def about(text: str) -> str:
    """What a page is about in one line: the summary of its front matter, its first heading, else its first words."""
    front = _FRONT.match(text)
    body = text[front.end() :] if front else text
    heading = _HEADING.search(body)
    first = heading[1] if heading else next((line for line in body.splitlines() if line.strip()), "")
    first = (_summary(text) if front and "\nsummary:" in front[0] else "") or first
    line = " ".join(_NOISE.sub(" ", first).split())
    return line if len(line) <= MOST_LINE else line[: MOST_LINE - 1].rstrip() + "…"


def _summary(text: str) -> str:
    from nightschool.disk import frontmatter

    with suppress(Problem):
        return str(frontmatter.split(text)[0].get("summary") or "")
    return ""


def _about_page(tree: Tree, path: str) -> str:
    try:
        return about(tree.read(path)) or PurePosixPath(path).stem
    except Problem as problem:
        return f"cannot be read: {problem.what.rpartition(': ')[2]}"


def _whole(lines: Mapping[str, list[str]]) -> str:
    parts = [MARK, "# Index", ""]
    for category in sorted(lines):
        parts += [*([f"## {category}", ""] if category else []), *lines[category], ""]
    return "\n".join(parts).rstrip("\n") + "\n"


def _counts(lines: Mapping[str, list[str]]) -> str:
    parts = [MARK, "# Index", ""]
    for category, found in sorted(lines.items()):
        pages = "1 page" if len(found) == 1 else f"{len(found)} pages"
        where = f"[{WIKI}/{category}/_index.md]({_link(f'{WIKI}/{category}/_index.md')})" if category else f"{WIKI}/"
        parts.append(f"- {where}: {pages}")
    return "\n".join(parts) + "\n"


def _link(path: str) -> str:
    """From wiki/, where the index is."""
    return quote(path.removeprefix(f"{WIKI}/"))
