"""A lock: one holder, named; free again whatever became of it."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.disk.locks import Lock

HOLD = (
    "import sys, time; from pathlib import Path; from nightschool.disk.locks import Lock\n"
    "with Lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
)


def test_a_taken_lock_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "new/.lock"
    with Lock(path), pytest.raises(Problem) as caught, Lock(path):
        pass
    assert f"held by pid {os.getpid()}, host {socket.gethostname()}, since 20" in caught.value.what
    assert "\n" not in caught.value.what


def test_a_lock_is_free_after_the_block_and_after_an_error(tmp_path: Path) -> None:
    lock = Lock(tmp_path / ".lock")
    for _ in range(2):
        with pytest.raises(KeyError), lock:
            raise KeyError
    with lock:
        pass
    assert lock.path.read_text() == ""


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Problem, match=f"held by pid {holder.pid}, host .*, since 20"), Lock(path):
            pass
        holder.send_signal(signal.SIGKILL)
    assert str(holder.pid) in path.read_text()
    with Lock(path):
        assert str(os.getpid()) in path.read_text()


def test_a_holder_that_has_not_said_who_it_is(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with Lock(path):
        path.write_bytes(b"")
        with pytest.raises(Problem, match="held by another process"), Lock(path):
            pass


def test_a_lock_taken_in_vain_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Lock(tmp_path / ".lock")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "pwrite", _interrupted)
        lock.__enter__()
    with lock:
        pass


def _interrupted(*_: object) -> int:
    raise KeyboardInterrupt


def test_a_lock_that_cannot_be_taken_is_not_held(tmp_path: Path, process: Any) -> None:
    path = tmp_path / "new/.lock"
    for failure in process.failures(errno.ENOSPC):
        with failure, Lock(path):
            pass
        assert isinstance(failure.problem, MachineProblem) == failure.happened
    with Lock(path):
        pass
