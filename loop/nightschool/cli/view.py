"""The view of a night: live on a terminal, plain lines elsewhere, and the summary at its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nightschool.cli import output
from nightschool.loop.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nightschool.loop.progress import Watcher

STAGES = {
    "val": "trying the skills on val",
    "train": "working on the train tasks",
    "test": "the test split",
    "study": "the maintainer studies the traces",
    "propose": "the proposer reads and proposes",
    "confirm": "confirming run of the candidate",
    "standing": "confirming run of the standing skills",
}
BARS = "▁▂▃▄▅▆▇█"


@contextmanager
def watch(space: Workspace) -> Iterator[Watcher]:
    """A watcher that shows the night: rich's live display on a terminal, lines on stderr elsewhere."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.live import Live

    board = Board(space)
    with Live(console=Console(stderr=True, highlight=False), get_renderable=board.render, refresh_per_second=4):
        yield board


class Lines:
    """One line a stage and one an event."""

    def stage(self, k: int, name: str, total: int) -> None:
        """Say what begins."""
        output.say(f"[{k}] {STAGES.get(name, name)}" + (f" ({total})" if total > 1 else ""))

    def tick(self, done: int, tokens: int) -> None:
        """Nothing: lines are for logs."""

    def event(self, record: Mapping[str, Any]) -> None:
        """Say what was decided."""
        text = told(record)
        if text:
            output.say(f"[{record['k']}] {text}")

    def note(self, text: str) -> None:
        """Say it."""
        output.say(text)


def told(record: Mapping[str, Any]) -> str | None:
    """An event in words, when a person would want to know."""
    kind = record["event"]
    if kind == "baseline":
        return f"baseline: val {record['score']:.3f}"
    if kind == "study":
        return f"wiki: {len(record['pages'])} pages written; {record['log']}"
    if kind == "settled":
        verdict = "accepted" if record["accepted"] else "no action" if record["score"] is None else "rejected"
        return f"{verdict}: {record['action']} {record['skill'] or ''} - {record['reason']}"
    if kind == "result":
        return f"test: {record['first']:.3f} -> {record['final']:.3f}"
    return None


class Board:
    """Iteration, stage, tasks done, tokens a second, best score, time left, what was accepted."""

    def __init__(self, space: Workspace) -> None:
        """Begin with an empty board."""
        self.space = space
        self.begun = time.monotonic()
        self.k, self.name, self.total, self.done = 0, "", 0, 0
        self.stage_begun = self.begun
        self.tokens = 0
        self.scores: list[float] = []
        self.best: float | None = None
        self.iterations = 0
        self.first = 0
        self.finished: list[float] = []
        self.lines: list[str] = []

    def stage(self, k: int, name: str, total: int) -> None:
        """Another stage."""
        self.k, self.name, self.total, self.done, self.tokens = k, name, total, 0, 0
        self.stage_begun = time.monotonic()

    def tick(self, done: int, tokens: int) -> None:
        """More done."""
        self.done, self.tokens = done, self.tokens + tokens

    def event(self, record: Mapping[str, Any]) -> None:
        """Keep what the board shows."""
        if record["event"] == "baseline":
            self.best, self.first = record["score"], record["k"]
            self.scores.append(record["score"])
        if record["event"] == "settled":
            self.finished.append(time.monotonic())
            if record["score"] is not None:
                self.scores.append(record["score"])
            if record["accepted"]:
                self.best = record["score"]
        text = told(record)
        if text:
            self.lines.append(f"{record['k']:>3}  {text}")

    def note(self, text: str) -> None:
        """Show it among the events."""
        self.lines.append(f"     {text}")

    def render(self) -> RenderableType:
        """The board as it stands."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        elapsed = time.monotonic() - self.begun
        speed = self.tokens / max(time.monotonic() - self.stage_begun, 0.1)
        grid = Table.grid(padding=(0, 2))
        grid.add_row("stage", Text(f"iteration {self.k}: {STAGES.get(self.name, self.name)}", style="bold"))
        if self.total > 1:
            bar = Table.grid(padding=(0, 1))
            bar.add_row(ProgressBar(self.total, self.done, width=30), f"{self.done}/{self.total}  {speed:.0f} tokens/s")
            grid.add_row("tasks", bar)
        best = "-" if self.best is None else f"{self.best:.3f}"
        grid.add_row("best", f"{best}  {sparkline(self.scores)}")
        grid.add_row("time", f"{clock(elapsed)} so far{self._left(elapsed)}")
        for line in self.lines[-8:]:
            style = "green" if " accepted:" in line else "dim"
            grid.add_row("", Text(line, style=style, overflow="ellipsis", no_wrap=True))
        return Group(
            Panel(
                grid, title=f"nightschool · {self.space.root.resolve().name}", title_align="left", border_style="cyan"
            )
        )

    def _left(self, elapsed: float) -> str:
        if not self.finished or not self.iterations:
            return ""
        left = (self.iterations - len(self.finished)) * (self.finished[-1] - self.begun) / len(self.finished)
        return f", about {clock(max(left, 0))} left"


def sparkline(scores: list[float]) -> str:
    """Scores in [0, 1] as a row of bars."""
    return "".join(BARS[min(int(score * len(BARS)), len(BARS) - 1)] for score in scores)


def clock(seconds: float) -> str:
    """`2h 05m`, `3m 20s`, `12s`."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 60}m {whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def summary(space: Workspace, record: Mapping[str, Any]) -> None:
    """The night in a screen: baseline, curve, accepted skills, the test split before and after, how to undo."""
    console = output.console()
    if record["baseline"] is None:
        console.print(f"{space.root}: no night has been run yet; start one: nightschool evolve {space.root}")
        return
    console.print(
        f"[bold]{record['suite']}[/]  model {record['model']}  control {record['control']}  {record['state']}"
    )
    console.print(f"baseline  val {record['baseline']:.3f}")
    rows = [
        (
            str(item["k"]),
            item["action"],
            item["skill"] or "-",
            _figure(item["score"]),
            "yes" if item["accepted"] else "no",
            item["reason"],
        )
        for item in record["iterations"]
    ]
    if rows:
        output.table(("k", "action", "skill", "val", "kept", "why"), rows)
    curve = [record["baseline"], *(item["score"] for item in record["iterations"] if item["score"] is not None)]
    console.print(f"curve     {sparkline(curve)}  best {record['best']:.3f}")
    kept = [item["skill"] for item in record["iterations"] if item["accepted"]]
    console.print(f"accepted  {', '.join(dict.fromkeys(kept)) or 'nothing'}")
    test = record["test"]
    if test is not None:
        low, high = test["ci95"]
        console.print(
            f"test      {test['first']:.3f} → [bold]{test['final']:.3f}[/]  gain {test['delta']:+.3f}"
            f" (95% interval {low:+.3f} to {high:+.3f}, p {test['p_value']:.3f})"
        )
    tokens = record["tokens"]
    console.print(
        f"cost      {clock(record['seconds'])}, {tokens['prompt']:,} prompt tokens ({tokens['cached']:,} cached), {tokens['generated']:,} generated"
    )
    for name in dict.fromkeys(kept):
        console.print(f'undo      nightschool skills revoke {name} {space.root} --reason "..."')


def _figure(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"
