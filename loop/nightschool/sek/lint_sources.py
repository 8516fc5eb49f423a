"""Checks of where pages come from: sources gone or changed, quotes that are not in them, sources without a page."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.sek.ingest_page import QUOTE, opened
from nightschool.sek.lint_base import Finding
from nightschool.sek.sources import INGESTED, SOURCES, read_spans, unread
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import Tree
from nightschool.sek.units import fed, units

WHY = "nobody can tell whether the page is true"


def check(tree: Tree) -> list[Finding]:
    """Every finding about sources."""
    tree = Tree(tree.root)
    newest = _newest(tree)
    named: set[str] = set()
    found: list[Finding] = []
    for path in tree.pages():
        try:
            text = tree.read(path)
        except Problem:  # the linter says so
            continue
        front = opened(text)[0]
        source = str(front.get("source") or "")
        if source.startswith(f"{SOURCES}/"):
            named.add(source)
            found += _page(tree, path, text, front, newest)
    found += _sources(tree, named)
    return found


def _page(tree: Tree, path: str, text: str, front: Mapping[str, Any], newest: Mapping[str, str]) -> Iterator[Finding]:
    source = str(front["source"])
    line = text.count("\n", 0, text.find("\nsource:") + 1) + 1
    try:
        raw = tree.read_bytes(source)
    except Problem:
        advice = f"restore {source} from git, or remove the page"
        yield Finding(path, line, "source-gone", f"its source {source} is not there", WHY, advice)
        return
    if hashlib.sha256(raw).hexdigest() != front.get("sha256"):
        advice = f"restore {source} from git; a new version is ingested under its own name"
        yield Finding(path, line, "source-changed", f"{source} is no longer what was ingested", WHY, advice)
    if newest.get(source, source) != source:
        what = f"there is a newer version of its source: {newest[source]}"
        advice = "compare it with the pages of the new version, then remove it"
        yield Finding(path, line, "source-old", what, "what it says may no longer hold", advice, "warning")
    yield from _quotes(path, fed(text), fed(raw.decode("utf-8-sig", "replace")))


def _quotes(path: str, text: str, source: str) -> Iterator[Finding]:
    """Claims whose quote does not stand in the lines that it names."""
    rows = source.split("\n")
    found = list(QUOTE.finditer(text))
    for match in found:
        first, last = int(match[2]), int(match[3])
        if match[4] not in "\n".join(rows[max(first - 1, 0) : last]):
            line = text.count("\n", 0, match.start()) + 1
            what = f"the quote is not in lines {first}-{last} of the source"
            yield Finding(path, line, "quote", what, WHY, "put the source's own words back, or remove the claim")
    if not found:
        what = "the page names a source and quotes nothing of it"
        yield Finding(path, 1, "no-quote", what, WHY, "quote what it stands on, or take source: out", "warning")


def _sources(tree: Tree, named: set[str]) -> Iterator[Finding]:
    spans = read_spans(tree, events_of(tree))
    for path in _files(tree):
        if path not in named:
            what = "no page comes from this source"
            advice = "remove it, then nightschool wiki ingest the file anew, or leave it out"
            yield Finding(path, 1, "unused-source", what, "it is kept and says nothing", advice, "warning")
            continue
        raw = tree.read_bytes(path)
        read = spans.get(hashlib.sha256(raw).hexdigest(), ())
        rest = unread(units(fed(raw.decode("utf-8-sig", "replace"))), read)
        if read and rest:
            what = f"read only in part: line {rest[0][0].first} and on is not ingested"
            advice = f"nightschool wiki ingest {path}"
            yield Finding(path, rest[0][0].first, "source-part", what, "the wiki lacks the rest", advice, "warning")


def _files(tree: Tree) -> Iterator[str]:
    """The sources that are kept, sorted."""
    root = tree.root / SOURCES
    found = [Path(here, name) for here, _, names in os.walk(root) for name in names if not name.startswith(".")]
    yield from sorted(path.relative_to(tree.root).as_posix() for path in found if path.is_file())


def _newest(tree: Tree) -> dict[str, str]:
    """For each source the one that was ingested last under its name."""
    last: dict[str, str] = {}
    names: dict[str, str] = {}
    for event in events_of(tree):
        if event.kind == INGESTED:
            names[str(event.data["source"])] = str(event.data["name"])
            last[str(event.data["name"])] = str(event.data["source"])
    return {source: last[name] for source, name in names.items()}
