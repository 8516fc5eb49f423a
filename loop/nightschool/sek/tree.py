"""A SEK tree on disk: where its files lie, and how they are read without leaving it.

A folder is a tree if it has `wiki/_routing.md`. Below it: the bootstrap file (L0), `wiki/_routing.md` and `wiki/_index.md`
(L1), `wiki/<category>/` (L2), `memory/` (L3 and logs). `wiki/patterns/` belongs to the night and is no category.

`memory/.pending.json` is a transaction that is committed but not yet carried out:
`{"schema": 1, "files": {PATH: BASE64 | null}, ...}`, null for a removed file. Readers see it as done. Who writes it, and
what the pages mean, is left to others.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from nightschool.disk.errors import Problem
from nightschool.disk.system import explained

if TYPE_CHECKING:
    from nightschool.sek.routing import Routing

WIKI, MEMORY = "wiki", "memory"
ROUTING, INDEX = "wiki/_routing.md", "wiki/_index.md"
INBOX, LOG, USAGE = "memory/inbox.md", "memory/log.jsonl", "memory/usage.jsonl"
TERMS, PENDING = "memory/terms.json", "memory/.pending.json"
NIGHT = "patterns"
"""The sub-folder of wiki/ that the night keeps; not a category."""
NO_PAGES = frozenset({"_routing.md", "_index.md"})
"""Files of these names tell where pages are; they are none themselves."""
NO_TOP_PAGES = frozenset({"index.md", "log.md", "logs.md", "skill-impact.md"})
"""Files directly in wiki/ that are a catalogue or a log: the night's own, and those of other wikis."""
DEFAULT_CATEGORIES = ("rules", "references", "architecture", "workflows")
LARGEST = 5_000_000
"""Bytes of a page; a larger one is no knowledge but a dump."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\\]")


@dataclass(frozen=True, slots=True)
class PageFile:
    """One page as the disk has it: its path from the root, and what tells whether it has changed."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Tree:
    """The tree at `root`. Holds the pending transaction as it was when it was first looked for; nothing else."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Tree:
        """The nearest tree at or above `start` (default: the current folder), as git does."""
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if cls(folder).exists():
                return cls(folder)
        raise Problem(
            f"no SEK tree at or above {here}",
            "make one: nightschool sek init --agent NAME, sek adopt (an existing wiki/), or sek import FILE",
        )

    def exists(self) -> bool:
        """Whether this folder is a tree."""
        return (self.root / ROUTING).is_file() or ROUTING in self._pending

    @property
    def bootstrap(self) -> Path:
        """The L0 file, which `bootstrap:` in _routing.md names."""
        return self.inside(self.routing().bootstrap)

    def routing(self) -> Routing:
        """What _routing.md says, read and checked now."""
        from nightschool.sek.routing import parse

        return parse(self.read(ROUTING), ROUTING)

    def categories(self) -> list[str]:
        """The sub-folders of wiki/, sorted, without patterns/ and hidden ones."""
        with explained(self.root / WIKI):
            found = {entry.name for entry in os.scandir(self.root / WIKI) if _is_category(entry)}
        parts = [PurePosixPath(path).parts for path, data in self._pending.items() if data is not None]
        found |= {part[1] for part in parts if len(part) > 2 and part[0] == WIKI and not part[1].startswith(".")}
        return sorted(found - {NIGHT})

    def pages(self) -> list[str]:
        """Every page of the wiki, as a path from the root, sorted."""
        return [page.path for page in self.page_files()]

    def page_files(self) -> list[PageFile]:
        """The pages with size and time of change; a page that is still pending has its new size and the time 0."""
        root = os.path.realpath(self.root)
        found = {page.path: page for page in _walk(f"{root}/{WIKI}", WIKI, root)}
        for path, data in self._pending.items():
            if data is None:
                found.pop(path, None)
            elif _is_page(path):
                found[path] = PageFile(path, len(data), 0)
        return [found[path] for path in sorted(found)]

    def inside(self, relative: str) -> Path:
        """The file that a path from the root names, or a Problem: nothing outside of the tree has a name in it."""
        parts = PurePosixPath(relative).parts
        what = f"{relative!r} is no path inside the tree"
        if _UNSAFE.search(relative) or not parts:
            raise Problem(what, "use letters, digits and / only, as in wiki/rules/tests.md")
        if relative.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", relative):
            raise Problem(what, f"give it from {self.root}, without .., as in wiki/rules/tests.md")
        path = self.root.joinpath(*parts)
        real, root = os.path.realpath(path), os.path.realpath(self.root)
        if os.path.commonpath([real, root]) != root:
            raise Problem(f"{relative} is a link to {real}, outside of the tree", "put the file itself into the tree")
        return path

    def read_bytes(self, relative: str) -> bytes:
        """The bytes of a file of the tree, or a Problem."""
        path = self.inside(relative)
        name = str(PurePosixPath(relative))
        if name in self._pending:
            data = self._pending[name]
            if data is None:
                raise Problem(f"{relative}: no such file or directory", "check the path")
            return data
        with explained(path):
            if path.stat().st_size > LARGEST:
                raise Problem(
                    f"{relative}: larger than {LARGEST // 1_000_000} MB", "split it, or keep it outside of wiki/"
                )
            return path.read_bytes()

    def read(self, relative: str) -> str:
        """The text of a file, without a byte order mark; its line ends stay as they are."""
        raw = self.read_bytes(relative)
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise Problem(f"{relative}:{line}: not UTF-8", "save the file as UTF-8") from error

    def has(self, relative: str) -> bool:
        """Whether the tree has that file, pending changes done."""
        name = str(PurePosixPath(relative))
        if name in self._pending:
            return self._pending[name] is not None
        return self.inside(relative).is_file()

    def changed(self, files: Mapping[str, bytes | None]) -> Tree:
        """The same tree as it will be when these files are written (None: removed)."""
        after = Tree(self.root)
        after.__dict__["_pending"] = {**self._pending, **files}
        return after

    def stamp(self, relative: str) -> list[int] | None:
        """Size and time of change of a file; None if it is not there, or still pending."""
        try:
            stat = self.inside(relative).stat()
        except (OSError, Problem):
            return None
        return None if str(PurePosixPath(relative)) in self._pending else [stat.st_size, stat.st_mtime_ns]

    @cached_property
    def _pending(self) -> dict[str, bytes | None]:
        try:
            record = json.loads((self.root / PENDING).read_bytes())
            files: dict[str, str | None] = record["files"]
            return {path: None if data is None else base64.b64decode(data) for path, data in files.items()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            what = f"{PENDING} cannot be read: {error}"
            raise Problem(what, "look at it, then remove it: the files in it are as before") from error


def _is_category(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")


def _is_page(path: str) -> bool:
    """A Markdown file below wiki/ that is neither hidden, nor an index or a log, nor the night's."""
    top, *parts = path.split("/")
    if top != WIKI or not parts or not path.endswith(".md") or any(part.startswith(".") for part in parts):
        return False
    return parts[-1] not in NO_PAGES and parts[0] != NIGHT and (len(parts) > 1 or parts[0] not in NO_TOP_PAGES)


def _walk(folder: str, name: str, root: str) -> Iterator[PageFile]:
    """Pages below one folder. Linked folders are not entered; a linked file counts if it is inside of the tree."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and path != f"{WIKI}/{NIGHT}":
                yield from _walk(entry.path, path, root)
        elif _is_page(path) and not _UNSAFE.search(path):
            if entry.is_symlink() and os.path.commonpath([os.path.realpath(entry.path), root]) != root:
                continue
            if entry.is_file():
                stat = entry.stat()
                yield PageFile(path, stat.st_size, stat.st_mtime_ns)
