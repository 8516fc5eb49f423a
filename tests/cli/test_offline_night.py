"""Proof that a night works offline: one in a network that has nothing in it, and one whose every system call is watched.

Both are real nights of the real small model, as small as nights can be, and children are included; on vLLM where that
is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

NIGHT = (sys.executable, "-m", "nightschool.cli")
BACKEND = "vllm" if find_spec("vllm") else "transformers"
SUITE = """
schema = 1
name = "small"
system = "Answer in one word."
max_tokens = 8
stop = ["\\n"]
[evolve]
iterations = 1
min_reads = 1
max_turns = 2
min_examples = 1
fail = 1
pass = 1
trace_chars = 300
"""
WORDS = {"train": ("red", "blue"), "val": ("green", "grey"), "test": ("white", "black")}
REACHES = re.compile(r"^\d+\s+(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?\b.*$", re.MULTILINE)
LO_UP = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
os.execvp(sys.argv[1], sys.argv[1:])
"""
EMPTY = ("unshare", "-n", sys.executable, "-c", LO_UP)  # a machine with no network still has its loopback
LOOPBACK = re.compile(r'inet_addr\("127\.|inet_pton\(AF_INET6, "::1"|inet_pton\(AF_INET6, "::ffff:127\.')


def elsewhere(log: str) -> list[str]:
    """The calls in an strace log that reach for another machine."""
    return [line for line in REACHES.findall(log) if not LOOPBACK.search(line)]


def unshares() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run([*EMPTY, "true"], check=False).returncode


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "suite.toml").write_text(SUITE)
    for split, words in WORDS.items():
        tasks = [
            {"id": word, "prompt": f"Is {word} a colour?", "grader": {"kind": "exact", "expected": "Indeed."}}
            for word in words
        ]
        (suite / f"{split}.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    subprocess.run([*NIGHT, "new", "ws", "--suite", "./suite"], check=True)
    return tmp_path / "ws"


def finished(space: Path) -> bool:
    told = subprocess.run([*NIGHT, "status", str(space), "--json"], check=True, capture_output=True, text=True)
    record = json.loads(told.stdout)
    assert record["backend"] == BACKEND
    return bool(record["state"] == "finished" and record["tokens"]["generated"] and record["iterations"])


def test_the_watcher_sees_what_it_is_to_see() -> None:
    log = """\
7 connect(3, {sa_family=AF_UNIX, sun_path="/run/nscd"}, 110) = -1 ENOENT
7 connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
7 connect(3, {sa_family=AF_INET6, sin6_port=htons(8), inet_pton(AF_INET6, "::1", &sin6_addr)}, 28) = 0
8 connect(3, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("192.0.2.1")}, 16) = 0
9 sendto(3, "x", 1, 0, {sa_family=AF_INET6, sin6_port=htons(8), inet_pton(AF_INET6, "2001:db8::1", &a)}, 28) = 1
"""
    assert [line[0] for line in elsewhere(log)] == ["8", "9"]


@pytest.mark.model
@pytest.mark.skipif(not unshares(), reason="needs unshare, and the right to make an empty network")
def test_a_night_runs_in_an_empty_network(space: Path) -> None:
    subprocess.run([*EMPTY, *NIGHT, "evolve", str(space), "--backend", BACKEND], check=True)
    assert finished(space)


@pytest.mark.model
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (apt-get install strace)")
def test_no_process_of_a_night_reaches_for_another_machine(space: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    watched = ["strace", "-f", "--seccomp-bpf", "-e", "trace=network", "-o", str(log)]
    bare = {key: value for key, value in os.environ.items() if key not in ("NIGHTSCHOOL_SEALED", "PYTHONPATH")}
    subprocess.run([*watched, *NIGHT, "evolve", str(space), "--backend", BACKEND], check=True, env=bare)
    assert finished(space)
    assert elsewhere(log.read_text(errors="replace")) == []

    reach = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"
    subprocess.run([*watched, sys.executable, "-c", reach], check=False, env=bare)
    assert elsewhere(log.read_text(errors="replace")), "strace must see a process that does reach"
