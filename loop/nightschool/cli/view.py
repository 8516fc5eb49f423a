"""A night while it runs: lines on stderr, or the board (`board.py`) when stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nightschool.cli import output
from nightschool.cli.figures import clock

if TYPE_CHECKING:
    from nightschool.engine.types import Completion
    from nightschool.loop.progress import Watcher
    from nightschool.loop.workspace import Workspace

LONGEST = 100

STAGES = {
    "val": "trying val",
    "train": "working on train",
    "test": "the test, once",
    "study": "studying the traces",
    "propose": "proposing a change",
    "confirm": "confirming on val",
    "standing": "val without the change",
}


@contextmanager
def watch(space: Workspace) -> Iterator[Watcher]:
    """A watcher that shows the night; on a terminal what it drew is gone afterwards, for the summary to stand alone."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.live import Live

    from nightschool.cli.board import Board

    board, console = Board(space.root.resolve().name), Console(stderr=True, highlight=False)
    with Live(console=console, get_renderable=board.render, refresh_per_second=4, transient=True):
        yield board


class Lines:
    """One line a stage, one a turn of the maintainer or the proposer, and one an event."""

    def begin(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Say where the night stands."""
        if len(events) > 1:
            for event in events:
                self.event(event)

    def stage(self, k: int, name: str, total: int) -> None:
        """Say what begins."""
        output.say(f"[{k}] {STAGES.get(name, name)}" + (f" ({total})" if total > 1 else ""))

    def tick(self, done: int, tokens: int) -> None:
        """Nothing: lines are for logs."""

    def turn(self, k: int, role: str, number: int, reply: Completion) -> None:
        """Say that the role is at work, and at what."""
        output.say(f"[{k}]   {role}, turn {number}: {doing(reply)}")

    def event(self, record: Mapping[str, Any]) -> None:
        """Say what was decided, and what went back before."""
        for text in (*refusals(record), told(record)):
            if text:
                output.say(f"[{record['k']}] {text}")

    def note(self, text: str) -> None:
        """Say it."""
        output.say(text)


def doing(reply: Completion) -> str:
    """A turn in words: `reads traces/refund-days (41 tokens, 3 s)`."""
    import json

    parsed = json.loads(reply.text) if reply.valid else {}
    tokens = "" if reply.usage.generated_tokens is None else f"{reply.usage.generated_tokens} tokens, "
    match parsed:
        case {"action": "read_file", "path": str(path)}:
            what = f"reads {path}"
        case {"action": "finish", "proposal": {"action": str(action)}}:
            what = f"finishes with {action}"
        case _:
            what = "replies" if reply.valid else "a reply that was cut off"
    return f"{what} ({tokens}{clock(reply.seconds)})"


def told(record: Mapping[str, Any]) -> str | None:
    """An event in words, when a person would want to know."""
    match record["event"]:
        case "baseline":
            return f"baseline: val {record['score']:.3f}"
        case "study":
            return f"wiki: {', '.join(record['pages']) or 'nothing new'}"
        case "settled":
            return f"{verdict(record)}: {change(record)}{why(record)}"
        case "result":
            return f"test: {record['first']:.3f} → {record['final']:.3f}"
    return None


def refusals(record: Mapping[str, Any]) -> list[str]:
    """Why replies of the maintainer or the proposer went back."""
    role = {"study": "maintainer", "proposal": "proposer"}.get(record["event"])
    return [f"the {role}'s reply went back: {shortened(reason)}" for reason in record.get("refused", ())]


def shortened(reason: str) -> str:
    """Model text may go on and on."""
    return reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"


def verdict(settled: Mapping[str, Any]) -> str:
    """What became of an iteration, in a word."""
    if settled.get("revoked"):
        return "revoked"
    return "kept" if settled["accepted"] else "no change" if settled["score"] is None else "rejected"


def change(settled: Mapping[str, Any]) -> str:
    """`create answer-format, val 0.375, `, or nothing when nothing was proposed."""
    return f"{settled['action']} {settled['skill']}, val {settled['score']:.3f}, " if settled["skill"] else ""


def why(settled: Mapping[str, Any]) -> str:
    """The reason, without the score that stands before it."""
    score = settled["score"]
    return shortened(str(settled["reason"]).removeprefix("" if score is None else f"val {score:.3f} is "))
