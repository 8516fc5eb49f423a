"""Instruction files and what they import, read for the importer: `@path` outside of code names a file to read as well.

An imported path counts from the folder of the file that names it, as the agents do it; what leads out of the base folder is
not followed and noted, a cycle ends where it began. Text is taken without byte order mark and with `\\n` as line end; the
bytes are kept. What is in the text is left to others.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained
from nightschool.sek.blocks import Block, blocks, inside

LARGEST = 5_000_000
DEPTH = 5
"""How many imports deep; as many as Claude Code follows."""
_MENTION = re.compile(r"(?:^|(?<=[\s(]))@(?P<path>(?:~/|\.{0,2}/)?[\w.-][^\s`*()\[\]<>]*)", re.M)
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its name below the base folder, its path, bytes, text and blocks."""

    name: str
    path: Path
    raw: bytes
    text: str
    by: str | None = None
    """The source that imports it."""
    blocks: tuple[Block, ...] = field(default=(), repr=False)

    @property
    def sha256(self) -> str:
        """The hash of its bytes."""
        return hashlib.sha256(self.raw).hexdigest()


@dataclass(slots=True)
class _Reading:
    base: Path
    sources: list[Source] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


def read(paths: Sequence[Path], base: Path) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """The files and all that they import, each once, importers first; and notes on imports that were not followed."""
    reading = _Reading(base.resolve())
    for path in paths:
        _follow(reading, path, None, 0)
    return tuple(reading.sources), tuple(reading.notes)


def load(path: Path, name: str, by: str | None = None) -> Source:
    """One file, checked."""
    with explained(path):
        if path.is_dir():
            raise Problem(f"{path} is a folder", "name the instruction file in it, as CLAUDE.md")
        if path.stat().st_size > LARGEST:
            raise Problem(
                f"{path} is larger than {LARGEST // 1_000_000} MB", "split it, or take what matters out of it"
            )
        raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Problem(f"{path}:{line}: not UTF-8", "save the file as UTF-8") from error
    if "\x00" in text:
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise Problem(f"{path}:{line}: a NUL character: this is no text", "name files of text only")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Source(name, path, raw, text, by, tuple(blocks(text)))


def mentions(found: Sequence[Block]) -> list[str]:
    """The paths that a text imports, in order, each once."""
    return list(dict.fromkeys(path for block in found for path in _mentioned(block)))


def _mentioned(block: Block) -> Iterator[str]:
    if block.kind in ("fence", "code", "front"):
        return
    if block.kind == "tag":
        for part in inside(block)[1]:
            yield from _mentioned(part)
        return
    for match in _MENTION.finditer(_CODE_SPAN.sub(" ", block.text)):
        yield match["path"].rstrip(".,;:!?'\"。，；：")


def _follow(reading: _Reading, path: Path, by: Source | None, depth: int) -> None:
    real = os.path.realpath(path)
    if real in reading.seen:
        return
    reading.seen.add(real)
    source = load(path, _name(reading, real, path), by.name if by else None)
    reading.sources.append(source)
    for mention in mentions(source.blocks):
        target = Path(mention).expanduser() if mention.startswith("~/") else path.parent / mention
        if not _is_import(reading, source, mention, target):
            continue
        if depth == DEPTH:
            reading.notes.append(f"{source.name}: @{mention} is more than {DEPTH} imports deep; not followed")
        else:
            _follow(reading, target, source, depth + 1)


def _is_import(reading: _Reading, source: Source, mention: str, target: Path) -> bool:
    """Whether a mention is to be followed. A file that is not there is a note only if it looks like one."""
    inside_base = Path(os.path.realpath(target)).is_relative_to(reading.base)
    try:
        is_file = target.is_file()
    except OSError:
        return False
    if not is_file:
        if mention.endswith((".md", ".mdc", ".txt")):
            reading.notes.append(f"{source.name}: @{mention} is not there; left as it stands")
        return False
    if not inside_base:
        reading.notes.append(f"{source.name}: @{mention} leads out of {reading.base}; not followed")
    return inside_base


def _name(reading: _Reading, real: str, path: Path) -> str:
    try:
        return Path(real).relative_to(reading.base).as_posix()
    except ValueError:
        return path.name
