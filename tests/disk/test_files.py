"""Atomic writes and appends: killed anywhere, on a full disk, on hostile paths."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk import files
from nightschool.disk.errors import MachineProblem, Problem


def test_writes_text_and_bytes_and_makes_the_parents(tmp_path: Path) -> None:
    files.write_atomic(tmp_path / "a/b/c.md", "grün\r\n\u2028x")
    files.write_atomic(tmp_path / "a/raw", b"\xff\x00")
    assert files.read_text(tmp_path / "a/b/c.md") == "grün\r\n\u2028x"
    assert (tmp_path / "a/raw").read_bytes() == b"\xff\x00"


def test_a_rewritten_file_keeps_its_permissions_and_a_link_its_target(tmp_path: Path) -> None:
    real, link = tmp_path / "real.sh", tmp_path / "link.sh"
    real.write_text("old")
    real.chmod(0o750)
    link.symlink_to("real.sh")
    files.write_atomic(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o750


def test_who_reads_the_old_text_reads_it_to_its_end(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("old")
    with page.open() as reader:
        files.write_atomic(page, "new")
        assert reader.read() == "old"


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_kill_leaves_the_old_text_or_the_new(
    tmp_path: Path, process: Any, snapshot: Any, plant: Any, before: str | None, torn: bool
) -> None:
    for number, kill in enumerate(process.kills(torn=torn)):
        home = plant(tmp_path / str(number), {} if before is None else {"deep/page.md": before})
        page = home / "deep/page.md"
        with kill:
            files.write_atomic(page, "new text")
        assert (page.read_text() if page.exists() else None) in (before, "new text")
        files.sweep(home)
        assert set(snapshot(home)) <= {"deep", "deep/page.md"}
        files.write_atomic(page, "new text")
        assert snapshot(home) == {"deep": None, "deep/page.md": "new text"}
    assert number >= 5  # open, write, fsync, replace, fsync


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_stops_the_machine_and_leaves_nothing_behind(
    tmp_path: Path, process: Any, snapshot: Any, plant: Any, code: int
) -> None:
    for number, failure in enumerate(process.failures(code)):
        home = plant(tmp_path / str(number), {"page.md": "old"})
        with failure:
            files.write_atomic(home / "page.md", "new")
        assert snapshot(home) in ({"page.md": "old"}, {"page.md": "new"})
        assert isinstance(failure.problem, MachineProblem) == failure.happened


def test_a_disk_that_fills_up_in_the_middle_of_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room, real = 5, os.write

    def write(fd: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, data[:room])
        room -= written
        return written

    page = tmp_path / "page.md"
    page.write_text("old\n")
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(MachineProblem, match="no space left") as caught:
        files.write_atomic(page, "a long new text")
    assert "\n" not in caught.value.what + caught.value.advice
    room = 5
    with pytest.raises(MachineProblem):
        files.append(page, "a long new line\n")
    assert page.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EISDIR])
def test_what_a_person_can_mend_is_no_failure_of_the_machine(tmp_path: Path, process: Any, code: int) -> None:
    for failure in process.failures(code):
        with failure:
            files.write_atomic(tmp_path / "page.md", "new")
        assert (failure.problem is not None) == failure.happened
        assert not isinstance(failure.problem, MachineProblem)


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in ("file/below", "folder", "n" * 300):
        with pytest.raises(Problem):
            files.write_atomic(tmp_path / path, "x")
    with pytest.raises(Problem, match=r"U\+D800"):
        files.write_atomic(tmp_path / "half", "\ud800")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_append_adds_and_makes(tmp_path: Path) -> None:
    log = tmp_path / "new/log.md"
    files.append(log, "one\n")
    files.append(log, "zwei ü\n")
    assert log.read_text() == "one\nzwei ü\n"


@pytest.mark.parametrize("torn", [False, True])
def test_a_killed_append_loses_nothing_older(tmp_path: Path, process: Any, plant: Any, torn: bool) -> None:
    for number, kill in enumerate(process.kills(torn=torn)):
        log = plant(tmp_path / str(number), {"log.md": "old\n"}) / "log.md"
        with kill:
            files.append(log, "new line\n")
        text = log.read_text()
        assert text.startswith("old\n")
        assert "old\nnew line\n".startswith(text)


def test_a_full_disk_takes_an_append_back(tmp_path: Path, process: Any, plant: Any) -> None:
    for number, failure in enumerate(process.failures(errno.ENOSPC)):
        log = plant(tmp_path / str(number), {"log.md": "old\n"}) / "log.md"
        with failure:
            files.append(log, "new\n")
        assert log.read_text() == ("old\n" if failure.happened else "old\nnew\n")
        assert isinstance(failure.problem, MachineProblem) == failure.happened


def test_read_text_names_the_line_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_bytes(b"one\ntwo\n\xff\n")
    with pytest.raises(Problem, match=r"page\.md:3: not UTF-8"):
        files.read_text(tmp_path / "page.md")
    with pytest.raises(Problem, match="no such file"):
        files.read_text(tmp_path / "missing")


def test_the_hash_of_a_text_is_that_of_its_file(tmp_path: Path) -> None:
    files.write_atomic(tmp_path / "page.md", "ü\n")
    assert files.sha256_text("ü\n") == files.sha256_file(tmp_path / "page.md")
    assert files.sha256_text("") == hashlib.sha256().hexdigest()
    assert files.sha256_text("\ud800") != files.sha256_text("")


def test_a_real_kill_leaves_whole_files(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    program = (
        "import itertools, sys; from pathlib import Path; from nightschool.disk.files import write_atomic\n"
        "for n in itertools.count(): write_atomic(Path(sys.argv[1]), f'{n} ' * 50_000); print(n, flush=True)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program, str(page)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        for _ in range(5):
            writer.stdout.readline()
        assert files.sweep(tmp_path) == []  # it is alive
        writer.send_signal(signal.SIGKILL)
    words = page.read_text().split()
    assert len(words) == 50_000
    assert len(set(words)) == 1
    files.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [page]
