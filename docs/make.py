"""Makes what in docs/ follows from the code: cli.md from the help texts, and the two pictures of the README.

The pictures are drawn from a real night: `python docs/make.py WORKSPACE` keeps its journal and status in docs/pictures,
`make docs` draws them again. tests/cli/test_docs.py compares cli.md with the code.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme

from nightschool.cli import app, main
from nightschool.cli.board import Board
from nightschool.cli.summary import summarised
from nightschool.loop.journal import Journal
from nightschool.loop.report import status
from nightschool.loop.workspace import Workspace

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
PRIVATE = {"identity", "scores", "plan", "fingerprint", "reads", "omitted", "edits"}
"""Keys of events that no picture shows."""
INK, PAPER, WHITE = (205, 211, 224), (16, 20, 32), (240, 244, 252)
DARK = [
    (30, 36, 54),
    (240, 113, 120),
    (126, 203, 142),
    (236, 196, 108),
    (108, 158, 240),
    (186, 140, 232),
    (86, 194, 214),
]
LIGHT = [
    *((96, 106, 132), (255, 139, 146), (146, 228, 164), (255, 214, 128)),
    *((140, 184, 255), (208, 168, 255), (116, 220, 238)),
]
THEME = TerminalTheme(PAPER, INK, [*DARK, INK], [*LIGHT, WHITE])
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" xml:space="preserve">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
{styles}
</style>
<defs>{lines}</defs>
<rect x="-16" y="-12" width="100%" height="100%" rx="10" fill="#101420"/>
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g>
</svg>
"""
"""Rich's own frame without its fonts from the network, and without window buttons."""


def cli_md() -> str:
    """The help text of every command."""
    parts = [f"{(DOCS / 'cli.head.md').read_text('utf-8').rstrip()} {made_with()}"]
    for command in commands():
        name = " ".join(("nightschool", *command))
        parts.append(f"## {name}\n\n```\n{help_text(command)}\n```" if command else f"```\n{help_text(command)}\n```")
    return "\n\n".join(parts) + "\n"


def made_with() -> str:
    """What lays the help texts out, and may do so otherwise in another version."""
    return f"(Typer {typer.__version__.rpartition('.')[0]})"


def commands() -> Iterator[tuple[str, ...]]:
    """Every command, in the order of the help."""
    yield ()
    groups = {group.name: group.typer_instance for group in app.registered_groups if group.typer_instance}
    for command in app.registered_commands:
        yield (str(command.name),)
    for name, group in groups.items():
        for command in group.registered_commands:
            callback: Any = command.callback
            yield (str(name), command.name or callback.__name__)


def help_text(command: tuple[str, ...]) -> str:
    """What `nightschool COMMAND --help` prints, 100 columns wide at most."""
    told = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(told):
        assert main([*command, "--help"]) == 0
    return "\n".join(line.rstrip() for line in told.getvalue().strip().splitlines())


def board() -> RenderableType:
    """The night as it was in its third iteration, with some of the train tasks done."""
    events = [json.loads(line) for line in (PICTURES / "night.jsonl").read_text("utf-8").splitlines()]
    now = [0.0]
    shown = Board("demo", lambda: now[0])
    shown.begin(events[:1])
    for event in events[1:]:
        if (event["event"], event["k"]) == ("train", events[0]["k"] + 3):
            total, part = event["answers"]["total"], 0.6
            shown.stage(event["k"], "train", total)
            now[0] += event["seconds"] * part
            shown.tick(int(total * part), int(event["usage"]["generated_tokens"] * part))
            break
        now[0] += event["seconds"]
        shown.event(event)
    return shown.render()


def summary() -> RenderableType:
    """The morning after."""
    return summarised("demo", json.loads((PICTURES / "status.json").read_text("utf-8")))


def picture(drawn: RenderableType, name: str, width: int = 88) -> str:
    """An SVG that needs nothing from elsewhere."""
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(drawn)
    svg = console.export_svg(title=name, theme=THEME, code_format=SVG, unique_id=name)
    svg = re.sub(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', _roomier, svg)
    return re.sub(r"[ \t]+\n", "\n", svg)


def _roomier(box: re.Match[str]) -> str:
    """Rich's view of the text alone, with a margin."""
    return f'viewBox="-16 -12 {float(box[1]) + 32:.0f} {float(box[2]) + 28:.0f}"'


def record(space: Workspace) -> None:
    """Keep what the pictures show of the workspace's last night."""
    night = [{key: event[key] for key in event if key not in PRIVATE} for event in Journal(space.journal).night()]
    (PICTURES / "night.jsonl").write_text(
        "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in night), "utf-8"
    )
    (PICTURES / "status.json").write_text(json.dumps(status(space), ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    for workspace in sys.argv[1:]:
        record(Workspace(Path(workspace)))
    (DOCS / "cli.md").write_text(cli_md(), "utf-8")
    for name, drawn in (("night", board()), ("morning", summary())):
        (PICTURES / f"{name}.svg").write_text(picture(drawn, name), "utf-8")
