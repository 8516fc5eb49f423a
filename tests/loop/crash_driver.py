"""Runs a scripted night, killed at every write, and resumes it: a program of its own, started by test_crash.py.

The parent loads everything once and forks one child per kill point, so that thousands of real SIGKILLs fit in a test.
A child dies at its N-th call that changes the disk; a write dies half-way. Another child then resumes the night, and
the workspace is compared with an undisturbed one, byte for byte, times aside.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.backends.uniform import UniformEngine
from nightschool.engine.engine import Engine
from nightschool.engine.models import scripted_spec
from nightschool.engine.types import Request
from nightschool.loop.evolve import evolve
from nightschool.loop.nights import open_night, resolve
from nightschool.loop.progress import Silent
from nightschool.loop.workspace import Config, Workspace, create

CALLS = ("write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "open")
ROLES = {"student": "scripted", "maintainer": "uniform", "proposer": "uniform"}
TIMES = re.compile(rb'"(time|seconds|first_token_seconds)": ?[0-9.e+-]+')


def answer(request: Request) -> str:
    """A student that looks its question up among the examples: it learns exactly what a skill shows it."""
    words = request.messages[-1].content.split()
    found = re.search(rf"Question: .*\b{words[-1]}\nAnswer: (.*)", request.messages[0].content)
    return found[1] if found else "no idea"


def engine(alias: str) -> Engine:
    if alias == "uniform":
        return UniformEngine(scripted_spec())
    return ScriptedEngine(default=answer)


def write_suite(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "suite.toml").write_text(
        'schema = 1\nname = "toy"\nsystem = "Answer."\nmax_tokens = 8\n[evolve]\nmin_reads = 1\nmax_turns = 3\nmin_examples = 1\n'
    )
    for split, words in (("train", "What is"), ("val", "Tell me"), ("test", "Say now")):
        lines = [
            {"id": f"{split}-{n}", "prompt": f"{words} k{n}", "grader": {"kind": "exact", "expected": f"v{n}"}}
            for n in range(3)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(root: Path) -> None:
    space = Workspace(root)
    config = resolve(space, {})
    with open_night(space, config, ROLES, engine, Silent()) as night:
        evolve(night)


def kill_at(number: int) -> None:
    """Make the `number`-th disk-changing call of this process its last; a write is cut in half first."""
    count = 0

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if name == "open" and not (args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
                return real(*args, **kwargs)
            count += 1
            if count == number:
                if name == "write":
                    real(args[0], bytes(args[1])[: max(len(args[1]) // 2, 0)])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))


def child(action: Callable[[], None]) -> int:
    """Run in a forked process; its exit status, 0 when it ended well, -9 when it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status)


def tree(root: Path) -> dict[str, bytes]:
    """Every file but the lock, the count of resumes, and times."""
    skipped = {".lock", "resumes.jsonl"}
    return {
        str(path.relative_to(root)): TIMES.sub(b"", path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


def main(work: Path, first: int, step: int) -> int:
    suite = work / "suite"
    write_suite(suite)
    fresh = work / "fresh"
    create(fresh, str(suite), Config(suite="toy", seed=3).changed(iterations=3))
    calm = work / "calm"
    shutil.copytree(fresh, calm)
    assert child(lambda: run(calm)) == 0
    wanted = tree(calm)
    number, kills = first, 0
    while True:
        root = work / f"killed-{number}"
        shutil.copytree(fresh, root)

        def killed(root: Path = root, number: int = number) -> None:
            kill_at(number)
            run(root)

        status = child(killed)
        if status == 0:
            break
        assert status == -signal.SIGKILL, f"kill point {number}: exit {status}"
        kills += 1
        assert child(lambda root=root: run(root)) == 0, f"kill point {number}: the resumed night failed"
        got = tree(root)
        if got != wanted:
            differing = sorted(set(got) ^ set(wanted)) or [name for name in wanted if got[name] != wanted[name]]
            print(f"kill point {number}: differs in {differing}", flush=True)
            return 1
        shutil.rmtree(root)
        number += step
    accepted = wanted["journal.jsonl"].count(b'"accepted": true') + wanted["journal.jsonl"].count(b'"accepted":true')
    print(json.dumps({"kills": kills, "last": number, "accepted": accepted, "files": len(wanted)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
