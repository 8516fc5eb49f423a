"""The four real instruction files, if this checkout has them, and a snapshot of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).resolve()
FOUND = [folder for above in HERE.parents if (folder := above / "shared" / "data" / "instructions") and folder.is_dir()]
REAL = FOUND[0] if FOUND else None
NAMES = ("01", "02", "03", "04")


def real(name: str, place: Path) -> Path:
    """CLAUDE.md in `place`, with what it imports beside it."""
    assert REAL is not None
    place.mkdir(exist_ok=True)
    path = place / "CLAUDE.md"
    shutil.copyfile(next(REAL.glob(f"{name}-*.md")), path)
    beside = REAL / f"{name}-imports"
    if beside.is_dir():
        for file in beside.rglob("*.md"):
            target = place / file.relative_to(beside)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return path


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Every file and folder below `root`."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }
