"""The board of a night on a terminal: a Watcher that draws itself.

Progress of the night and of its stage, tokens a second, time left, the curve of val scores, and what was decided. It
fits any width from 40 columns on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from nightschool.cli.figures import about, clock, sparkline
from nightschool.cli.view import STAGES, refusals, told, verdict

if TYPE_CHECKING:
    from nightschool.engine.types import Completion

SHOWN = 8
MARKS = {"kept": ("✓", "bold green"), "rejected": ("✗", "dim"), "no change": ("·", "dim")}


class Board:
    """What a night has told so far; `render` draws it."""

    def __init__(self, title: str, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is the clock: pictures and tests bring their own."""
        self.title, self.model, self._now = title, "", now
        self.begun = self.stage_begun = now()
        self.before = 0.0
        """Seconds of the night before this process took it up."""
        self.first, self.iterations, self.settled = 0, 0, 0
        self.k, self.name, self.total, self.done, self.tokens, self.turns = 0, "", 0, 0, 0, 0
        self.seconds: dict[int, float] = {}
        """By iteration, of events that are journaled."""
        self.scores: list[float] = []
        self.baseline: float | None = None
        self.best: float | None = None
        self.lines: list[tuple[str, Text]] = []
        self._spinner = Spinner("dots", style="cyan")

    # What the loop tells.

    def begin(self, events: Sequence[Mapping[str, Any]]) -> None:
        """The night's own event, and whatever was done before it was stopped."""
        start = events[0]
        self.first, self.iterations = int(start["k"]), int(start["iterations"])
        self.model = start["roles"]["student"]
        for event in events:
            self.event(event)
        self.before, self.begun = sum(self.seconds.values()), self._now()

    def stage(self, k: int, name: str, total: int) -> None:
        """Another stage."""
        self.k, self.name, self.total, self.done, self.tokens, self.turns = k, name, total, 0, 0, 0
        self.stage_begun = self._now()

    def tick(self, done: int, tokens: int) -> None:
        """More done."""
        self.done, self.tokens = done, self.tokens + tokens

    def turn(self, k: int, role: str, number: int, reply: Completion) -> None:
        """One more of the maintainer or the proposer."""
        self.turns = number

    def event(self, record: Mapping[str, Any]) -> None:
        """Keep what the board shows."""
        k = int(record["k"])
        self.seconds[k] = self.seconds.get(k, 0.0) + record.get("seconds", 0.0)
        mark, style = "·", "dim"
        if record["event"] == "baseline":
            self.baseline = self.best = record["score"]
            self.scores.append(record["score"])
        if record["event"] == "settled":
            self.settled += 1
            mark, style = MARKS[verdict(record)]
            if record["score"] is not None:
                self.scores.append(record["score"])
            if record["accepted"]:
                self.best = record["score"]
        self.lines += [(str(k), Text(f"· {text}", "dim")) for text in refusals(record)]
        text = told(record)
        if text:
            told_by = Text.assemble((f"{mark} ", style), (text, "green" if "green" in style else style))
            self.lines.append((str(k), told_by))

    def note(self, text: str) -> None:
        """Show it among the events."""
        self.lines.append(("", Text(f"  {text}", style="italic dim")))

    # How it is drawn.

    def render(self) -> RenderableType:
        """The board as it stands."""
        title = Text.assemble(("nightschool ", "bold white"), (self.title, "cyan"))
        if self.model:
            title.append(f" {self.model}", "dim")
        body = Group(self._progress(), Padding(self._scores(), (1, 0)), self._events())
        return Panel(body, title=title, title_align="left", border_style="bright_black", padding=(1, 2))

    def _progress(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(no_wrap=True, min_width=9)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True, justify="right")
        whole = ProgressBar(max(self.iterations, 1), self.settled, complete_style="cyan", finished_style="cyan")
        grid.add_row(Text(self._where(), style="bold"), whole, Text(self._time()))
        turns = f", turn {self.turns + 1}" if self.turns else ""
        stage = Text(STAGES.get(self.name, "loading the model") + turns, overflow="ellipsis")
        if self.total > 1:
            bar = ProgressBar(self.total, self.done, complete_style="green", finished_style="green")
            grid.add_row(stage, bar, Text(self._speed(), style="dim"))
        else:
            grid.add_row(stage, self._spinner, Text(clock(self._now() - self.stage_begun), style="dim"))
        return grid

    def _where(self) -> str:
        if not self.iterations:
            return "opening the night"
        if self.name == "test":
            return f"after {self.settled} iteration{'' if self.settled == 1 else 's'}"
        return f"iteration {self.k - self.first} of {self.iterations}" if self.k > self.first else "the baseline"

    def _scores(self) -> RenderableType:
        if self.best is None or self.baseline is None:
            return Text("val   the baseline is being measured", style="dim")
        better = self.best > self.baseline
        return Text.assemble(
            ("val   ", "bold"),
            f"{self.baseline:.3f}",
            *((" → ", (f"{self.best:.3f}", "bold green")) if better else ()),
            ("   " + sparkline(self.scores), "green" if better else "cyan"),
            no_wrap=True,
            overflow="ellipsis",
        )

    def _events(self) -> RenderableType:
        grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
        grid.add_column(justify="right", style="dim", min_width=2)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        for k, text in self.lines[-SHOWN:]:
            grid.add_row(k, text)
        return grid

    def _speed(self) -> str:
        rate = self.tokens / max(self._now() - self.stage_begun, 0.1)
        return f"{self.done}/{self.total}" + (f"  {rate:.0f} tokens/s" if self.tokens else "")

    def _time(self) -> str:
        elapsed = clock(self.before + self._now() - self.begun)
        left = self._left()
        return elapsed if left is None else f"{elapsed}, {about(left)} left"

    def _left(self) -> float | None:
        """Seconds until the last iteration is settled, if they go on to take as long as those so far."""
        past = [self.seconds[k] for k in self.seconds if self.first < k <= self.first + self.settled]
        if not past or self.settled >= self.iterations:
            return None
        under_way = self._now() - self.begun - (sum(self.seconds.values()) - self.before)
        return max((self.iterations - self.settled) * sum(past) / len(past) - under_way, 0.0)
