"""What imports have written, and how the last one is taken back, byte for byte.

On disk `memory/import.json`: {"schema": 1, "imports": [{"time", "made_memory", "sources": [{"name", "sha256"}],
"files": {PATH: {"before": BASE64 | null, "after": SHA256 | null}}}]}, the oldest first. A file that somebody has changed
since its import is never overwritten. The log keeps that there was an import, unless the log itself began with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.tree import LOG, TERMS, Tree

if TYPE_CHECKING:
    from nightschool.sek.importer_read import Source

SCHEMA = 1
MANIFEST = "memory/import.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """All imports of a tree."""

    imports: tuple[Mapping[str, Any], ...] = field(default=())

    def sha256(self, source: str) -> str | None:
        """The hash that a source had when it was imported; None if it was not."""
        found = [each["sha256"] for made in self.imports for each in made["sources"] if each["name"] == source]
        return found[-1] if found else None

    def written(self, path: str) -> str | None:
        """The hash that the last import to write a file has left it with."""
        found = [made["files"][path]["after"] for made in self.imports if path in made["files"]]
        return found[-1] if found else None


def load(root: Path) -> Manifest:
    """The manifest of the tree at `root`; empty if there is none."""
    path = root / MANIFEST
    with explained(path):
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return Manifest()
    try:
        record = json.loads(raw)
        good = record["schema"] == SCHEMA and all({"sources", "files"} <= set(each) for each in record["imports"])
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path}: cannot be read", "restore it from git") from error
    if not good:
        raise Problem(f"{path}: not what this version reads", "use the version of nightschool that wrote it")
    return Manifest(tuple(record["imports"]))


def added(
    tree: Tree, sources: Sequence[Source], files: Mapping[str, bytes | None], moment: str, made_memory: bool
) -> bytes:
    """The manifest with one more import, which is about to write `files`."""
    record = {
        "time": moment,
        "made_memory": made_memory,
        "made_log": not tree.has(LOG),
        "made_terms": not tree.has(TERMS),
        "sources": [{"name": source.name, "sha256": source.sha256} for source in sources],
        "files": {path: {"before": _coded(_read(tree, path)), "after": _sha(raw)} for path, raw in files.items()},
    }
    return _rendered([*load(tree.root).imports, record])


def undo(root: Path, now: Clock = utc_now) -> list[str]:
    """Take back the last import; the paths that were restored or removed."""
    from nightschool.sek.transaction import commit, writing

    tree = Tree(root)
    imports = load(root).imports
    if not imports:
        raise Problem(f"nothing was imported into {root}", "see sek import --help")
    with writing(tree) as current:
        last = load(root).imports[-1]
        rest = load(root).imports[:-1]
        _refuse_changed(current, last["files"])
        files = {
            path: _decoded(entry["before"])
            for path, entry in last["files"].items()
            if not _is_memory(path) or _sha(_read(current, path)) == entry["after"]
        }
        clean = bool(last.get("made_log")) and _log_is_its_own(current)
        changes = {**files, MANIFEST: _rendered(rest) if rest else None}
        if clean:
            changes |= {LOG: None}
        if last.get("made_terms") and current.has(TERMS):
            changes |= {TERMS: None}
        names = [source["name"] for source in last["sources"]]
        event = Event("import-undone", stamp(now()), None, {"sources": names})
        commit(current, changes, [] if clean else [event])
    _clear_folders(root, files, bool(last.get("made_memory")))
    return sorted(files)


def _refuse_changed(tree: Tree, files: Mapping[str, Any]) -> None:
    changed = [
        path
        for path, entry in files.items()
        if _sha(_read(tree, path)) != entry["after"] and not path.endswith("_index.md") and not _is_memory(path)
    ]
    if changed:
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        advice = "put these files back from git, then undo; what L0 was lies in NAME.orig beside it"
        raise Problem(f"changed since the import: {shown}", advice)


def _is_memory(path: str) -> bool:
    """Whether a file is the life cycle's, which goes on writing it; it stays then."""
    return path.startswith("memory/")


def _log_is_its_own(tree: Tree) -> bool:
    """Whether the log tells of nothing but one import."""
    from nightschool.sek.transaction import events_of

    return [found.kind for found in events_of(tree)] == ["import"]


def _clear_folders(root: Path, files: Mapping[str, bytes | None], made_memory: bool) -> None:
    """Remove the folders that only the import filled."""
    if made_memory:
        with suppress(OSError):
            if {path.name for path in (root / "memory").iterdir()} <= {".lock"}:
                (root / "memory/.lock").unlink(missing_ok=True)
    gone = {root / path for path, raw in files.items() if raw is None}
    folders = {parent for path in gone for parent in path.parents if root in parent.parents} | {root / "memory"}
    for folder in sorted(folders, key=lambda path: -len(path.parts)):
        with suppress(OSError):
            folder.rmdir()


def _read(tree: Tree, path: str) -> bytes | None:
    return tree.read_bytes(path) if tree.has(path) else None


def _rendered(imports: Sequence[Mapping[str, Any]]) -> bytes:
    return (json.dumps({"schema": SCHEMA, "imports": list(imports)}, ensure_ascii=False, indent=1) + "\n").encode()


def _sha(raw: bytes | None) -> str | None:
    return None if raw is None else hashlib.sha256(raw).hexdigest()


def _coded(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
