"""Promotes, makes critical, revokes and ingests, killed at every call that changes the disk: a program of test_crash.py.

Everything is loaded once and one child is forked for each kill point. A child dies in place of its N-th call that changes
the disk; a write is cut in half first. Then a reader must see the tree as it was before or as it is after, whole; the next
command, itself killed at every such call, must bring the disk there; and the command run again must come out as if nothing
had happened. In the folder of work lies nothing yet.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightschool.engine.backends.scripted import ScriptedEngine, shortest
from nightschool.sek import commands, core
from nightschool.sek.bootstrap import render
from nightschool.sek.ingest import ingest as read_sources
from nightschool.sek.routing import Routing, rendered
from nightschool.sek.sources import gather
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import PENDING, Tree

CALLS = ("write", "open", "replace", "rename", "unlink", "mkdir", "rmdir", "truncate")
IDS = re.compile(rb'"id":"[^"]*"')
SKIPPED = {".lock", "terms.json"}
TAG = "STRIPE-RETRIES-001"
Action = Callable[[Path], None]


def now() -> datetime:
    return datetime(2026, 1, 31, 2, 10, 9, tzinfo=UTC)


def plant(root: Path) -> None:
    (root / "wiki" / "rules").mkdir(parents=True)
    (root / "wiki" / "_routing.md").write_text(rendered(Routing()))
    (root / "AGENTS.md").write_text(render("I build it.", "rules", "read wiki/_routing.md"))


def register(root: Path, session: str) -> None:
    tree = Tree(root)
    commands.register(tree, "stripe retries", "unexpected", session, "once", "twice", "hooks.py", now)


def first(root: Path) -> None:
    plant(root)
    register(root, "one")


def promote(root: Path) -> None:
    """As an agent would: not again what is done."""
    if not any(event.kind == "promoted" for event in events_of(Tree(root))):
        register(root, "two")


def make_core(root: Path) -> None:
    if not any(event.kind == "core" for event in events_of(Tree(root))):
        core.promote(Tree(root), TAG, now=now)


def revoke(root: Path) -> None:
    if not any(event.kind == "revoked" for event in events_of(Tree(root))):
        core.revoke(Tree(root), TAG, "wrong", now)


def ingest(root: Path) -> None:
    """One part, so one page; a source that was read is not read again."""
    text = root.parent / "guide.md"
    text.write_bytes(b"# Harbour\n\nA berth costs 12 florins.\n")
    engine = ScriptedEngine(default=shortest)
    list(read_sources(Tree(root), gather([text], Tree(root))[0], engine, now))


def recover(root: Path) -> None:
    commands.expire(Tree(root), now)


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


def killed(action: Action, root: Path, number: int) -> bool:
    """Run it up to its `number`-th call; whether it was killed there (or else ended before)."""
    pid = os.fork()
    if pid == 0:
        try:
            os.fsync = lambda fd: None  # what a killed process wrote stays written: only a power cut needs it
            kill_at(number)
            action(root)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), f"kill point {number}: exit {status}"
    return status != 0


def seen(root: Path) -> dict[str, Any]:
    """What a reader sees, who changes nothing."""
    tree = Tree(root)
    paths = [*tree.pages(), "wiki/_routing.md", "wiki/_index.md", "memory/inbox.md", "AGENTS.md"]
    found: dict[str, Any] = {path: tree.read_bytes(path) for path in paths if tree.has(path)}
    found["log"] = [(event.kind, event.tag, str(event.data)) for event in events_of(tree)]
    return found


def disk(root: Path) -> dict[str, bytes]:
    """Every file but the lock and the cache, without ids."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in SKIPPED]
    return {str(path.relative_to(root)): IDS.sub(b"", path.read_bytes()) for path in files}


def each_point(work: Path, name: str, before: Path, action: Action, calm: Path) -> int:
    """Kill at every call; returns how many there were."""
    whole = (seen(before), seen(calm))
    root = work / "root"
    number = 0
    while True:
        number += 1
        shutil.copytree(before, root)
        if not killed(action, root, number):
            shutil.rmtree(root)
            return number - 1
        assert seen(root) in whole, f"{name} {number}: a reader sees half of it"
        half = root.with_name("half")
        shutil.copytree(root, half)
        if (half / PENDING).exists():
            again = 1
            while killed(recover, half, again):
                assert seen(half) == whole[1], f"{name} {number}.{again}: a reader sees half of it"
                again += 1
            assert disk(half) == disk(calm), f"{name} {number}: differs after {again - 1} kills of the next command"
        shutil.rmtree(half)
        recover(root)
        assert disk(root) in (disk(before), disk(calm)), f"{name} {number}: half of it is there"
        action(root)
        got, wanted = disk(root), disk(calm)
        differing = sorted(path for path in {*got, *wanted} if got.get(path) != wanted.get(path))
        assert not differing, f"{name} {number}: differs in {differing}"
        shutil.rmtree(root)


def main(work: Path) -> None:
    setattr(core, "typed_yes", lambda text, question: True)  # noqa: B010
    os.fsync = lambda fd: None
    before = work / "0"
    first(before)
    actions = (("promote", promote), ("core", make_core), ("revoke", revoke), ("ingest", ingest))
    for n, (name, action) in enumerate(actions, start=1):
        calm = work / str(n)
        shutil.copytree(before, calm)
        action(calm)
        print(f"{name}: {each_point(work, name, before, action, calm)} kill points", flush=True)
        before = calm


if __name__ == "__main__":
    main(Path(sys.argv[1]))
