"""Runs a scripted night, killed at every call that changes the disk, and resumes it: a program, started by test_crash.py.

Everything is loaded once and one child is forked for each kill point, so that hundreds of real SIGKILLs fit in a test.
A child dies in place of its N-th call that changes the disk; a write is cut in half first. Another child then resumes
the night, and the workspace is compared with an undisturbed one, byte for byte, times aside. In the folder of work:
`suite/`, `fresh/` (a workspace before its night), `calm/` (after it).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.engine import Engine
from nightschool.engine.types import Request
from nightschool.loop.evolve import evolve
from nightschool.loop.nights import open_night, resolve
from nightschool.loop.progress import Silent
from nightschool.loop.workspace import Config, Workspace, create

CALLS = ("write", "open", "replace", "rename", "unlink", "mkdir", "rmdir", "truncate")
"""Not fsync: it changes nothing that a process could see, so a kill there is a kill before the next call."""
WORKERS = 2
STRIDE = 40
"""Calls between two kills of the night that is killed again and again; enough for a stage."""
ROLES = {role: role for role in ("student", "maintainer", "proposer")}
TIMES = re.compile(rb'"(time|seconds|first_token_seconds)": ?[0-9.e+-]+')
TOML = 'schema = 1\nname = "toy"\nsystem = "Answer."\nmax_tokens = 8\n[evolve]\nmin_reads = 1\nmin_examples = 1\n'
TASKS = {"train": ("What is", "k0 k1"), "val": ("Tell me", "k0 k9"), "test": ("Say now", "k0")}
PAGE = {
    "name": "house-values",
    "kind": "failure",
    "scope": "general",
    "problem": "the value is not known",
    "root_cause": "it is local",
    "fix": ["look it up"],
    "evidence": ["train-k0"],
}
SKILL = {"description": "local values", "when": ["asked"], "when_not": ["never"], "instructions": ["look"]}


def student(request: Request) -> str:
    """Looks its question up among the examples: it learns exactly what a skill shows it."""
    word = request.messages[-1].content.split()[-1]
    found = re.search(rf"Question: .*\b{word}\nAnswer: (.*)", request.messages[0].content)
    return found[1] if found else "no idea"


def maintainer(request: Request) -> str:
    """Makes a page, then adds to it."""
    if "(the wiki is empty)" in request.messages[-1].content:
        return compact({"create": [PAGE], "log": "a page"})
    edit = {"op": "append", "page": "house-values", "content": ["more of it"], "evidence": ["train-k1"]}
    return compact({"edits": [edit], "create": [], "log": "one more"})


def proposer(request: Request) -> str:
    """Reads one trace; then makes a skill that helps, and later one that does not."""
    first = "Skills: none yet" in request.messages[1].content
    cited = "train-k0" if first else "train-k1"
    if len(request.messages) == 2:
        return compact({"thought": "so", "action": "read_file", "path": f"traces/{cited}"})
    made = {"action": "create", "name": "helps" if first else "idle", **SKILL}
    made |= {"patterns": ["house-values"], "examples": [cited]}
    return compact({"thought": "so", "action": "finish", "proposal": made})


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


SCRIPTS = {"student": student, "maintainer": maintainer, "proposer": proposer}


def engine(alias: str) -> Engine:
    return ScriptedEngine(default=SCRIPTS[alias])


def write_suite(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "suite.toml").write_text(TOML)
    for split, (words, keys) in TASKS.items():
        lines = [
            {"id": f"{split}-{key}", "prompt": f"{words} {key}", "grader": {"kind": "exact", "expected": f"v-{key}"}}
            for key in keys.split()
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(root: Path) -> None:
    space = Workspace(root)
    with open_night(space, resolve(space, {}), ROLES, engine, Silent()) as night:
        evolve(night)


def kill_at(number: int) -> None:
    """Make the `number`-th disk-changing call of this process its last; a write is cut in half first."""
    count = 0

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **kwargs)
            count += 1
            if count == number:
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))


def child(action: Callable[[], None]) -> int:
    """Run in a forked process; its exit status: 0 when it ended well, -9 when it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            os.fsync = lambda fd: None  # what a killed process wrote stays written: only a power cut needs it
            action()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(root: Path, number: int) -> bool:
    """Run the night in `root` up to its `number`-th call; whether it was killed there (or else ended before)."""

    def action() -> None:
        kill_at(number)
        run(root)

    status = child(action)
    assert status in (0, -signal.SIGKILL), f"kill point {number}: exit {status}"
    return status != 0


def tree(root: Path) -> dict[str, bytes]:
    """Every file but the lock and the count of resumes, without times."""
    skipped = {".lock", "resumes.jsonl"}
    return {
        str(path.relative_to(root)): TIMES.sub(b"", path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


def compare(number: int, root: Path, calm: Path) -> None:
    got, wanted = tree(root), tree(calm)
    differing = sorted(name for name in {*got, *wanted} if got.get(name) != wanted.get(name))
    assert not differing, f"kill point {number}: differs in {differing}"
    shutil.rmtree(root)


def each_point(work: Path, worker: int) -> None:
    """Every WORKERS-th kill point, until a night ends before it is killed."""
    number = worker + 1
    while killed(root := shutil.copytree(work / "fresh", work / f"killed-{number}"), number):
        assert child(partial(run, root)) == 0, f"kill point {number}: the resumed night failed"
        compare(number, root, work / "calm")
        number += WORKERS
    (work / f"last-{worker}").write_text(str(number))


def again_and_again(work: Path) -> int:
    """One night, killed every STRIDE calls; how often it was."""
    root, times = shutil.copytree(work / "fresh", work / "again"), 0
    while killed(root, STRIDE):
        times += 1
        assert times < 100, "the night does not get on"
    compare(STRIDE, root, work / "calm")
    return times


def main(work: Path) -> int:
    write_suite(work / "suite")
    create(work / "fresh", str(work / "suite"), Config(suite="toy").changed(iterations=2))
    calm = shutil.copytree(work / "fresh", work / "calm")
    run(calm)
    pids = []
    for worker in range(WORKERS):
        if (pid := os.fork()) == 0:
            os._exit(child(partial(each_point, work, worker)))
        pids.append(pid)
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if any(ends):
        return 1
    kills = min(int((work / f"last-{worker}").read_text()) for worker in range(WORKERS)) - 1
    print(compact({"kills": kills, "again": again_and_again(work)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
