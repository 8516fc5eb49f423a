"""Whole folders: their hash, their swap, and the sweep after a kill.

While `replace_tree` swaps two folders, the old one waits as `.NAME.aside.tmp`; it is renamed to
`.NAME.trash.tmp` before it is taken apart, so that the one is always a whole folder and the other never
wanted back. When to swap is left to others.
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from nightschool.disk.errors import Problem
from nightschool.disk.system import explained, make_folder, sweep_file, sync

_ASIDE, _TRASH = ".aside.tmp", ".trash.tmp"


def tree_hash(folder: Path) -> str:
    """One hash of all files below `folder`: names and contents. A missing folder hashes as an empty one."""
    whole = hashlib.sha256()
    with explained(folder):
        named = sorted((os.fsencode(path.relative_to(folder)), path) for path in _files(folder))
        for name, path in named:
            # A name holds no NUL and a hash has one length, so no two trees spell the same bytes.
            whole.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def replace_tree(new: Path, old: Path) -> None:
    """Put folder `new` in the place of `old`, which need not exist. After a kill at any point: call it again.

    If there is no `new`, an earlier call has moved it, and what is left to do is to clear away.
    """
    new, old = Path(os.path.realpath(new)), Path(os.path.realpath(old))
    if new == old or new in old.parents or old in new.parents:
        raise ValueError(f"{new} and {old} overlap")
    with explained(old):
        if new.is_dir():
            for path in (*new.rglob("*"), new):
                if path.is_file() or path.is_dir():
                    sync(path)
            make_folder(old.parent)
            _swap(new, old)
        elif not old.is_dir():
            raise Problem(f"neither {new} nor {old} is a folder", "restore one of them, from git or a backup")
        _discard(_aside(old))


def sweep(folder: Path, only: Collection[str] | None = None) -> list[Path]:
    """Put right what killed processes left below `folder`; returns what was removed or restored.

    A temporary file of a living process stays. Nobody else may be in `replace_tree` there. Hidden folders are
    not entered; `only` names those directly in `folder` that are (`None`: all).
    """
    swept: list[Path] = []
    with explained(folder):
        for root, folders, files in os.walk(folder):
            here = Path(root)
            swept += [here / name for name in files if sweep_file(here / name)]
            swept += [here / name for name in folders if _sweep_tree(here / name)]
            entered = [entry.name for entry in os.scandir(here) if _is_entered(entry)]
            folders[:] = [name for name in entered if only is None or here != folder or name in only]
    return swept


def _files(folder: Path) -> Iterator[Path]:
    """All files below `folder`, through symbolic links that lead somewhere, without what is temporary."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name.startswith(".") and path.name.endswith(".tmp"):
                continue
            if path.is_dir():
                yield from _files(path)
            elif path.is_file():
                yield path


def _aside(tree: Path) -> Path:
    return tree.with_name(f".{tree.name}{_ASIDE}")


def _swap(new: Path, old: Path) -> None:
    """The two renames; if the second fails, the first is undone."""
    aside = _aside(old)
    if old.is_dir():
        _discard(aside)
        old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        if aside.is_dir():
            aside.rename(old)
        raise
    sync(old.parent)
    sync(new.parent)


def _discard(aside: Path) -> None:
    trash = aside.with_name(aside.name.removesuffix(_ASIDE) + _TRASH)
    if trash.is_dir():
        shutil.rmtree(trash)
    if aside.is_dir():
        aside.rename(trash)
        shutil.rmtree(trash)


def _is_entered(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")


def _sweep_tree(path: Path) -> bool:
    """Restore a folder that was put aside if nothing has taken its place; remove what is no longer wanted."""
    if not path.name.startswith(".") or not path.is_dir():
        return False
    if path.name.endswith(_TRASH):
        shutil.rmtree(path)
        return True
    if not path.name.endswith(_ASIDE):
        return False
    tree = path.with_name(path.name[1:].removesuffix(_ASIDE))
    if tree.is_dir():
        _discard(path)
    else:
        path.rename(tree)
    return True
