"""The wiki: one page a pattern, an index rendered from the pages, and two append-only logs. Nothing here is rolled back.

On disk `wiki/patterns/ID.md` (front matter id, kind, scope, evidence, first_seen, last_seen; sections Problem, Root
cause, Evidence, Fix), `wiki/index.md`, `wiki/logs.md`, `wiki/skill-impact.md`. Pages are text that a person may edit; the
Evidence section alone is written by code, from the traces that were cited.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nightschool.disk import files, frontmatter, patches
from nightschool.disk.errors import Problem
from nightschool.loop import skills
from nightschool.loop.excerpts import one_line, shrink
from nightschool.loop.traces import Trace

CODE_SECTIONS = frozenset({"Evidence"})
MAX_EVIDENCE = 12
EVIDENCE = re.compile(r"^- (\S+) \(score .*$", re.MULTILINE)
SETTLED_NS = 2_000_000_000
"""A file that changed so recently may change again without its time telling: file systems count in up to two seconds."""
_INDEX_HEAD = "# Index of patterns\n\nRendered from patterns/; edit the pages, not this file.\n\n"


@dataclass(frozen=True)
class Page:
    """One pattern page as it stands; what is read from its text is read once."""

    id: str
    text: str

    @property
    def path(self) -> str:
        """Relative to the workspace."""
        return f"wiki/patterns/{self.id}.md"

    @property
    def front(self) -> Mapping[str, Any]:
        """Its front matter."""
        return self._parts[0]

    @cached_property
    def evidence(self) -> tuple[str, ...]:
        """Ids of the traces that it cites."""
        cited = self.front.get("evidence")
        return tuple(str(item) for item in cited) if isinstance(cited, list) else ()

    @property
    def last_seen(self) -> int:
        """The last iteration that cited a trace here; 0 where a person's page does not tell."""
        seen = self.front.get("last_seen")
        return seen if isinstance(seen, int) else 0

    def part(self, title: str) -> str:
        """The text of one section."""
        return skills.section(self._parts[1], title)

    def spans(self) -> list[str]:
        """Lines that an edit may name as its target: each occurs once, none was written by code."""
        return patches.spans(self.text, closed=CODE_SECTIONS)

    @cached_property
    def index_line(self) -> str:
        """Problem, root cause and fix in one line."""
        texts = (re.sub(r"^- ", "", self.part(title), flags=re.MULTILINE) for title in ("Problem", "Root cause", "Fix"))
        parts = "; ".join(one_line(text, 140) for text in texts)
        return f"- [{self.id}](patterns/{self.id}.md): {parts}"

    @cached_property
    def _parts(self) -> tuple[Mapping[str, Any], str]:
        return frontmatter.split(self.text)


@dataclass(frozen=True, slots=True)
class Wiki:
    """The pages, in the order of their ids."""

    pages: tuple[Page, ...] = ()

    def __contains__(self, identity: object) -> bool:
        """Whether there is a page of this id."""
        return any(page.id == identity for page in self.pages)

    def page(self, identity: str) -> Page:
        """The page of this id."""
        return next(page for page in self.pages if page.id == identity)

    def put(self, page: Page) -> Wiki:
        """The wiki with this page added or replaced."""
        rest = [other for other in self.pages if other.id != page.id]
        return Wiki(tuple(sorted([*rest, page], key=lambda item: item.id)))

    def index(self) -> str:
        """The text of index.md."""
        return _INDEX_HEAD + "".join(page.index_line + "\n" for page in self.pages)

    def free_id(self, wanted: str) -> str:
        """`wanted`, or the first of `wanted-2`, `wanted-3`, ... that no page has."""
        names = [wanted, *(f"{wanted}-{n}" for n in range(2, len(self.pages) + 3))]
        return next(name for name in names if name not in self)


class Shelf:
    """The pages under one folder (the workspace's wiki/), each read again only when its file is another."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self._folder = folder / "patterns"
        self._read: dict[str, tuple[tuple[int, ...], Page]] = {}

    def load(self) -> Wiki:
        """All pattern pages as they are on the disk now."""
        if not self._folder.is_dir():
            return Wiki()
        with files.explained(self._folder), os.scandir(self._folder) as found:
            self._read = {one.name: self._page(one) for one in found if one.name.endswith(".md")}
        return Wiki(tuple(self._read[name][1] for name in sorted(self._read)))

    def _page(self, file: os.DirEntry[str]) -> tuple[tuple[int, ...], Page]:
        """The page and the stamp of its file; a file that changed just now has none, for it may change unnoticed."""
        state = file.stat()
        stamp = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        known = self._read.get(file.name)
        if known and known[0] == stamp:
            return known
        settled = max(stamp[2:]) + SETTLED_NS < time.time_ns()
        return (stamp if settled else ()), _read_page(self._folder / file.name)


def load(folder: Path) -> Wiki:
    """All pattern pages under `folder` (the workspace's wiki/)."""
    return Shelf(folder).load()


def _read_page(path: Path) -> Page:
    text = files.read_text(path)
    if path.stem.encode(errors="replace").decode() != path.stem:  # it stands in prompts and in the index
        raise Problem(f"{str(path)!a}: the name is not UTF-8", "rename the file")
    page = Page(path.stem, text)
    try:
        _ = page.front
    except Problem as problem:
        raise Problem(f"{path}: {problem.what}", problem.advice) from None
    return page


def new_page(
    identity: str,
    *,
    kind: str,
    scope: str,
    problem: Sequence[str],
    root_cause: Sequence[str],
    fix: Sequence[str],
    evidence: Sequence[Trace],
    iteration: int,
) -> Page:
    """A page for a pattern seen for the first time; its evidence is copied from the traces."""
    front = {
        "id": identity,
        "kind": kind,
        "scope": scope,
        "evidence": [trace.id for trace in evidence],
        "first_seen": iteration,
        "last_seen": iteration,
    }
    body = (
        f"# {identity}\n\n## Problem\n{_lines(problem)}\n\n## Root cause\n{_lines(root_cause)}\n\n"
        f"## Evidence\n{_evidence(evidence)}\n\n## Fix\n{_lines(fix)}\n"
    )
    return Page(identity, frontmatter.join(front, body))


def revise(page: Page, edits: Sequence[patches.Edit], evidence: Sequence[Trace], iteration: int) -> Page:
    """The page after edits, resolved against the page as it was shown, and with the newly cited traces as evidence."""
    text = patches.apply(page.text, edits)
    front, body = frontmatter.split(text)
    ids = list(dict.fromkeys([*page.evidence, *(trace.id for trace in evidence)]))[-MAX_EVIDENCE:]
    if evidence:
        blocks = _blocks(page.part("Evidence")) | {trace.id: _evidence([trace]) for trace in evidence}
        body = skills.replace_section(body, "Evidence", "\n".join(blocks[item] for item in ids if item in blocks))
    return Page(page.id, frontmatter.join({**front, "evidence": ids, "last_seen": iteration}, body))


def _evidence(traces: Sequence[Trace]) -> str:
    blocks = [
        f"- {trace.id} (score {trace.score:.2f})\n"
        + patches.quote(
            f"Question: {shrink(trace.prompt, 400)}\nAnswered: {shrink(trace.answer, 200)}\n"
            f"Expected: {shrink(trace.expected, 200)}\nGrader: {shrink(trace.reason, 300)}"
        )
        for trace in traces
    ]
    return "\n".join(blocks)


def _blocks(section: str) -> dict[str, str]:
    """The blocks of an Evidence section by the ids of their traces, as they stand: the traces may be long gone."""
    heads = [*EVIDENCE.finditer(section)]
    ends = [*[head.start() for head in heads], len(section)][1:]
    return {head[1]: section[head.start() : end].rstrip() for head, end in zip(heads, ends, strict=True)}


def _lines(lines: Sequence[str]) -> str:
    """Model text as list items, so that none of it can open a heading or end the front matter."""
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def entries(text: str) -> list[tuple[str, str]]:
    """The entries of logs.md or skill-impact.md as (heading without `## `, whole text), oldest first."""
    marks = [*re.finditer(r"^## (iteration .+)$", text, re.MULTILINE)]
    ends = [*[mark.start() for mark in marks], len(text)][1:]
    return [(mark[1], text[mark.start() : end].rstrip() + "\n") for mark, end in zip(marks, ends, strict=True)]


def revoked(iteration: int, name: str, skill_md: str) -> str:
    """The heading of a skill's revocation."""
    return f"iteration {iteration} | revoked | {name} | {files.sha256_text(skill_md)[:8]}"


def revocations(impact: str) -> dict[str, int]:
    """Of skill-impact.md: each skill that was revoked, and the last iteration before it last was."""
    found = (
        re.fullmatch(r"iteration ([0-9]{1,9}) \| revoked \| (\S+) \| \S+", heading) for heading, _ in entries(impact)
    )
    return {one[2]: int(one[1]) for one in found if one}


def last_iteration(folder: Path) -> int:
    """The highest iteration number in the logs under `folder` (the workspace's wiki/); -1 when they tell of none."""
    logs = [folder / name for name in ("logs.md", "skill-impact.md")]
    told = [heading for path in logs if path.is_file() for heading, _ in entries(files.read_text(path))]
    return max((int(found[1]) for one in told if (found := re.match(r"iteration ([0-9]{1,9}) ", one))), default=-1)


def add_entry(path: Path, title: str, heading: str, body: str) -> None:
    """Append one entry to a log, once: an entry of the same heading is not repeated. `body` must hold no open `## ` line."""
    text = files.read_text(path) if path.is_file() else f"# {title}\n"
    if any(known == heading for known, _ in entries(text)):
        return
    files.write_atomic(path, f"{text.rstrip()}\n\n## {heading}\n\n{body.rstrip()}\n")
