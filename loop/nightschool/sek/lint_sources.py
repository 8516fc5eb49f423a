"""Checks of provenance: a source that is gone or changed, a quotation that it does not have, a source without a page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from nightschool.disk import frontmatter
from nightschool.disk.errors import Problem
from nightschool.sek.lint_base import Finding
from nightschool.sek.prose import lines
from nightschool.sek.sources import FOLDER
from nightschool.sek.tree import Tree

_QUOTE = re.compile(r"^  > (.*?)(?: …)? \(line \d+\)$")
AGAIN = "ingest the source again, or remove the page"


def check(tree: Tree) -> Iterator[Finding]:
    """Every page that names a source, and every source."""
    used = set()
    for path in tree.pages():
        try:
            text = tree.read(path)
            source = frontmatter.split(text)[0].get("source")
        except Problem:
            continue  # an unreadable page is told elsewhere; one whose front matter is no YAML has no source
        if isinstance(source, str) and source.startswith(f"{FOLDER}/"):
            used.add(source)
            yield from _page(tree, path, text, source)
    for source in _kept(tree):
        if source not in used:
            yield Finding(
                source, 1, "unused-source", "no page was made of it", "nobody finds what it says",
                "nightschool wiki ingest it again, or remove it", "note",
            )  # fmt: skip


def _page(tree: Tree, path: str, text: str, source: str) -> Iterator[Finding]:
    why = "nobody can tell whether the page is true"
    try:
        raw = tree.read_bytes(source)
    except Problem:
        yield Finding(path, 2, "source-gone", f"its source {source} is not there", why, AGAIN)
        return
    if hashlib.sha256(raw).hexdigest() != frontmatter.split(text)[0].get("sha256"):
        yield Finding(
            path, 2, "source-changed", f"its source {source} was changed", why, f"restore it from git, or {AGAIN}"
        )
        return
    said = " ".join(raw.decode("utf-8", "replace").split())
    for number, row in enumerate(lines(text), start=1):
        if (match := _QUOTE.match(row.rstrip())) and match[1] not in said:
            what = f"{source} does not say what is quoted here"
            yield Finding(path, number, "misquoted", what, why, "restore the quotation, or remove the claim")


def _kept(tree: Tree) -> list[str]:
    folder = tree.root / FOLDER
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted(f"{FOLDER}/{path.name}" for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
