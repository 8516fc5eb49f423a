"""What a session pays before the first word: the standing text of an instruction file, or of a SEK tree.

Of a file that is the file and all that it imports (`@path`), as an agent expands it at its start. Of a tree it is L0 and
the pages that every prompt loads; what a single prompt loads besides, the router knows. What a text costs is left to others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained
from nightschool.sek.importer_read import Source, load, read
from nightschool.sek.tree import Tree

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
KEPT = ".orig"
"""How `sek import` names what a bootstrap file was before."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The files of which every session pays all, and the tree that adds to them by the prompt, if there is one."""

    name: str
    sources: tuple[Source, ...]
    tree: Tree | None = None
    notes: tuple[str, ...] = ()


def standing(path: Path) -> Standing:
    """What an instruction file, a SEK tree or a project folder makes every session pay."""
    if not path.is_dir():
        return _file(path)
    if Tree(path).exists():
        return _tree(Tree(path.resolve()))
    found = [path / name for name in NAMES if (path / name).is_file()]
    if not found:
        names = ", ".join(NAMES)
        raise Problem(f"there is no instruction file in {path}", f"name one; a folder is looked through for {names}")
    return _file(found[0], tuple(f"{other.name} is not counted: no agent reads both" for other in found[1:]))


def original(tree: Tree) -> Path | None:
    """What the L0 file of an imported tree was before, if it was kept beside it."""
    kept = tree.bootstrap.with_name(tree.bootstrap.name + KEPT)
    return kept if kept.is_file() else None


def prompts(path: Path) -> tuple[str, ...]:
    """Prompts of a file: one a line, or JSON Lines with "prompt"."""
    with explained(path):
        lines = path.read_text("utf-8").splitlines()
    found = tuple(_prompt(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip())
    if not found:
        raise Problem(f"{path} has no prompt", "write one a line")
    return found


def _prompt(line: str, place: str) -> str:
    if not line.lstrip().startswith("{"):
        return line.strip()
    try:
        told = json.loads(line)["prompt"]
    except (ValueError, KeyError):
        told = None
    if not isinstance(told, str) or not told.strip():
        raise Problem(f'{place} has no "prompt"', 'write {"prompt": "..."}, or plain text')
    return told


def _file(path: Path, notes: Sequence[str] = ()) -> Standing:
    sources, said = read([path.resolve()], path.resolve().parent)
    return Standing(path.name, sources, notes=(*notes, *said))


def _tree(tree: Tree) -> Standing:
    from nightschool.sek.router import Router

    pages = [tree.bootstrap, *(tree.inside(page) for page in Router.load(tree).always())]
    return Standing(
        tree.bootstrap.name, tuple(load(page, page.relative_to(tree.root).as_posix()) for page in pages), tree
    )
