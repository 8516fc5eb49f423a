"""Sources: files that the wiki was made from, each kept as it was, and what of them has been read.

On disk `raw/sources/FOLDER/NAME.<12 digits of its sha256>.EXT`, byte for byte what was ingested. They lie in `raw/`, beside
the wiki as in Karpathy's layout, since whatever is in `wiki/` is a page that is indexed and routed. The hash is in the name,
so a file that has changed is another source beside the old one, and nothing is ever overwritten.

What was read is told by the log: an `ingested` event a page, with the `span` of characters that it came from. A source whose
copy somebody removes counts as never read. Reading with a model is ingest.py.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nightschool.disk.errors import Problem
from nightschool.sek.importer_read import Source, load
from nightschool.sek.record import Event
from nightschool.sek.tree import MEMORY, WIKI, Tree
from nightschool.sek.units import Unit

RAW = "raw"
SOURCES = f"{RAW}/sources"
INGESTED = "ingested"
DIGITS = 12
LONGEST_NAME, DEEPEST = 60, 3
"""Bytes of a name and its folders, and how many of those are kept."""
Span = tuple[int, int]


def gather(paths: Sequence[Path], tree: Tree) -> tuple[list[Source], list[Problem]]:
    """The files named, and those below the folders named, in order, each text once; and a Problem for what is no source."""
    found: dict[str, Source] = {}
    left: list[Problem] = []
    for path in paths:
        files = _below(path, tree, left) if path.is_dir() else [path]
        for file in files:
            try:
                source = _source(file, file.relative_to(path).as_posix() if path.is_dir() else file.name)
                found.setdefault(source.sha256, source)
            except Problem as problem:
                left.append(problem)
    return list(found.values()), left


def place(source: Source) -> str:
    """Where a source is kept, from the root of the tree."""
    *folders, name = map(_safe, PurePosixPath(source.name).parts)
    stem, dot, end = name.rpartition(".")
    marked = f"{stem}.{source.sha256[:DIGITS]}.{end}" if stem and dot else f"{name}.{source.sha256[:DIGITS]}"
    return "/".join([SOURCES, *folders[-DEEPEST:], marked])


def known(sources: Sequence[Source], log: Iterable[Event]) -> list[Source]:
    """The sources, each under the name that the same bytes were first ingested by."""
    names = {str(each.data["sha256"]): str(each.data["name"]) for each in log if each.kind == INGESTED}
    return [replace(source, name=names.get(source.sha256, source.name)) for source in sources]


def read_spans(tree: Tree, log: Iterable[Event]) -> dict[str, list[Span]]:
    """What of each source has been read, by its sha256."""
    spans: dict[str, list[Span]] = {}
    for event in log:
        if event.kind == INGESTED and tree.has(str(event.data["source"])):
            start, end = event.data["span"]
            spans.setdefault(str(event.data["sha256"]), []).append((start, end))
    return spans


def unread(found: Sequence[Unit], spans: Sequence[Span]) -> list[list[Unit]]:
    """The runs of units that lie in no span."""
    runs: list[list[Unit]] = []
    for unit in found:
        if any(start <= unit.start < end for start, end in spans):
            continue
        if runs and runs[-1][-1].end == unit.start:
            runs[-1].append(unit)
        else:
            runs.append([unit])
    return runs


def _source(path: Path, name: str) -> Source:
    if path.exists() and not path.is_file():
        raise Problem(f"{path} is no file", "name a text file, or a folder of them")
    source = load(path, name)
    if not source.text.strip():
        raise Problem(f"{path} is empty", "there is nothing to learn from it")
    return source


def _below(folder: Path, tree: Tree, left: list[Problem]) -> Iterator[Path]:
    """The files below a folder, sorted; neither hidden ones, nor links, nor what the tree itself keeps."""
    base = os.path.realpath(folder)
    own = {os.path.realpath(tree.root / name) for name in (WIKI, MEMORY, RAW)}

    def refused(error: OSError) -> None:
        left.append(Problem(f"{error.filename}: {(error.strerror or str(error)).lower()}", "change its permissions"))

    for here, folders, names in os.walk(folder, onerror=refused):
        for name in sorted([*folders, *names]):
            path = os.path.realpath(Path(here, name))
            if Path(here, name).is_symlink() and os.path.commonpath([path, base]) != base:
                left.append(Problem(f"{Path(here, name)} is a link out of {folder}", "put the file itself there"))
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and os.path.realpath(Path(here, name)) not in own
        )
        for name in sorted(names):
            if not name.startswith(".") and not Path(here, name).is_symlink():
                yield Path(here, name)


def _safe(name: str) -> str:
    """A name that every system takes."""
    plain = re.sub(r"[^\w.+-]+", "-", unicodedata.normalize("NFC", name)).strip(".-") or "source"
    while len(plain.encode()) > LONGEST_NAME:
        plain = plain[1:]
    return plain.strip(".-") or "source"
