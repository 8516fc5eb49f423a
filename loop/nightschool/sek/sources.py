"""Raw sources of a wiki: what pages were made of, kept as it was, and cut into pieces that a model can read.

On disk `sources/NAME.HASH.EXT`, HASH being the first 12 digits of the sha256 of its bytes: the same bytes have one name,
other bytes of the same name another, so nothing is ever overwritten. What is made of a source is ingest.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained
from nightschool.sek.lifecycle import slug
from nightschool.sek.prose import lines
from nightschool.sek.tree import LARGEST

FOLDER = "sources"
SUFFIXES = frozenset(
    {".md", ".markdown", ".txt", ".rst", ".adoc", ".org", ".html", ".csv", ".json", ".toml", ".yaml", ".yml"}
)
"""Of a folder, only files of these kinds are read."""
DIGITS = 12
MOST_PARAGRAPHS = 40
"""Of a piece: each may be cited once, under a grammar."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text as it was found; `path` is where the tree keeps it."""

    origin: str
    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A run of lines without a blank one; lines count from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring paragraphs of a source, lines `first` to `last`, that are read at once."""

    source: Source
    paragraphs: tuple[Paragraph, ...]
    first: int
    last: int

    @property
    def text(self) -> str:
        """The lines as they stand in the source."""
        return "".join(lines(self.source.text)[self.first - 1 : self.last])


def find(path: Path) -> list[Path]:
    """The files of a folder (links are not followed, hidden ones left out), or the file itself."""
    with explained(path):
        if path.is_dir():
            return sorted(found for found in _walk(path) if found.suffix.lower() in SUFFIXES)
        path.stat()
    return [path]


def read(path: Path) -> Source:
    """One source; a Problem if it is no text that a page can be made of."""
    with explained(path):
        size, raw = path.stat().st_size, b""
        if size <= LARGEST:
            raw = path.read_bytes()
    if size > LARGEST:
        raise Problem(f"{path}: larger than {LARGEST // 1_000_000} MB", "split it")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Problem(f"{path}:{line}: not UTF-8", "save it as UTF-8, or leave it out") from error
    if "\0" in text:
        raise Problem(f"{path}: not a text", "leave it out, or export it as Markdown")
    if not text.strip():
        raise Problem(f"{path}: nothing in it", "leave it out")
    sha = hashlib.sha256(raw).hexdigest()
    suffix = path.suffix.lower() if path.suffix.lower() in SUFFIXES else ".txt"
    return Source(path.name, f"{FOLDER}/{slug(path.stem, 'source')}.{sha[:DIGITS]}{suffix}", sha, text)


def pieces(source: Source, count: Callable[[str], int], tokens: int) -> list[Piece]:
    """The source in pieces of at most `tokens` each (a longer line is a piece by itself); every line is in exactly one."""
    made: list[Piece] = []
    part: list[Paragraph] = []
    used = 0
    for paragraph in _paragraphs(source.text, count, tokens):
        cost = count(paragraph.text)
        if part and (used + cost > tokens or len(part) == MOST_PARAGRAPHS):
            made.append(_piece(source, part, paragraph.line - 1))
            part, used = [], 0
        part.append(paragraph)
        used += cost
    return [*made, _piece(source, part, len(lines(source.text)))] if part else made


def _piece(source: Source, part: Sequence[Paragraph], last: int) -> Piece:
    return Piece(source, tuple(part), part[0].line, last)


def _paragraphs(text: str, count: Callable[[str], int], tokens: int) -> Iterator[Paragraph]:
    """Blank lines end a paragraph, and so does the limit."""
    start, block = 1, ""
    for number, line in enumerate(lines(text), start=1):
        full = bool(block.strip()) and count(block + line) > tokens
        if (not line.strip() and block.strip()) or full:
            yield Paragraph(start, block)
            start, block = number, ""
        if not block and not line.strip():
            start = number + 1  # blank lines belong to the piece, not to a paragraph
            continue
        block += line
    if block.strip():
        yield Paragraph(start, block)


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path
