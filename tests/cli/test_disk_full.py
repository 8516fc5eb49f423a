"""The disk is full: the night stops with exit code 3, says so in two lines, and goes on once there is space."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.conftest import Run

NIGHT = [sys.executable, "-m", "nightschool.cli", "evolve", "ws"]


@pytest.fixture
def small(place: Path) -> Iterator[Path]:
    """The workspace on a file system of its own, with room for the suite and little else."""
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root can mount a small file system")
    aside = place / "aside"
    (place / "ws").rename(aside)
    (place / "ws").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place / "ws")], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted: {mounted.stderr.decode().strip()}")
    try:
        shutil.copytree(aside, place / "ws", dirs_exist_ok=True)
        yield place / "ws"
    finally:
        subprocess.run(["umount", str(place / "ws")], check=True)


def night(limit: int | None = None) -> subprocess.CompletedProcess[str]:
    def cap() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(NIGHT, capture_output=True, text=True, check=False, preexec_fn=cap)


def told(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """The last two lines: what is wrong and what to do."""
    assert ran.returncode == 3, ran.stderr
    lines = ran.stderr.splitlines()[-2:]
    assert [line[:7] for line in lines] == ["error: ", "  try: "]
    return lines


def finished(run: Run) -> bool:
    return bool(json.loads(run("status", "ws", "--json").out)["state"] == "finished")


def test_a_full_disk_stops_the_night_and_space_lets_it_go_on(small: Path, run: Run) -> None:
    filler = small / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)
    what, advice = told(night())
    assert "no space left on device" in what and "free some space, then run the same command again" in advice
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=1m", str(small)], check=True)
    assert night().returncode == 0
    assert finished(run)


@pytest.mark.parametrize("limit", [300, 1200, 2500])
def test_a_file_that_may_not_grow_stops_the_night_wherever_it_is(place: Path, run: Run, limit: int) -> None:
    what, advice = told(night(limit))
    assert ("file too large" in what or "no space left" in what) and "then run the same command again" in advice
    assert night().returncode == 0
    assert finished(run)
    assert not list((place / "ws").rglob("*.tmp"))
