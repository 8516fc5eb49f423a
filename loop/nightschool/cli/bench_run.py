"""How a bench is run and its record shown: the table of benches, the options that all share, what becomes of a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.disk.errors import Problem, nearest

if TYPE_CHECKING:
    from nightschool.bench.result import Record

NAMES = {
    "throughput": "Tokens a second, of prompts and of replies, by batch width and length.",
    "startup": "What a context costs before the first useful token: cold, warm, from disk, second turn.",
    "l0": "The token tax: what standing instructions cost every session, by heading and by day.",
    "constrained": "What a grammar costs: compiling, filling masks, decoding beside free text.",
    "loop": "What the loop itself costs an iteration, with an engine that answers at once.",
}
"""Every bench: `nightschool.bench.NAME`, and what it measures."""

Repeats = Annotated[int | None, typer.Option(min=1, help="Samples of each figure (default: the bench's own).")]
Quick = Annotated[bool, typer.Option("--quick", help="A first look: fewer and shorter measurements.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another setting of this bench; may be repeated.")
]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, md, csv or json.")]
Save = Annotated[bool, typer.Option("--save/--no-save", help="Keep the record, for compare and history.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it too: FILE.png, or FILE.html with all tables.")]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that every bench has."""

    model: str | None = None
    models: Path | None = None
    backend: str | None = None
    repeats: int | None = None
    quick: bool = False


def is_there(name: str) -> bool:
    """Whether this version of nightschool has the bench."""
    from importlib.util import find_spec

    return find_spec(f"nightschool.bench.{name}") is not None


def ran(name: str, asked: Asked, sets: Sequence[str] = (), **own: Any) -> Record:
    """Run a bench; `own` are settings that only it has, `sets` the same as a person writes them."""
    from dataclasses import asdict, fields
    from importlib import import_module

    if not is_there(name):
        raise Problem(f"this version of nightschool has no bench {name}", "nightschool bench --help")
    module: Any = import_module(f"nightschool.bench.{name}")
    known = {each.name: each for each in fields(module.Settings)}
    told = {key: value for key, value in asdict(asked).items() if value is not None and key in known}
    for text in sets:
        key, _, value = text.partition("=")
        if key not in known or key in asdict(asked) or key == "say":
            raise Problem(f"bench {name} has no setting {key!r}", nearest(key, set(known) - {*asdict(asked), "say"}))
        told[key] = _value(name, key, value)
    with output.telling() as progress:
        say = {"say": lambda step: progress(step, 0, None)} if "say" in known else {}
        record: Record = module.measure(module.Settings(**told, **own, **say))
    return record


def show(record: Record, form: str, as_json: bool, save: bool, plot: Path | None) -> None:
    """Keep it, draw it, print it."""
    from nightschool.bench import render, result

    text = render.render([record], "json" if as_json else form)
    if save:
        output.say(f"kept: {result.save(record)}")
    if plot:
        drawn([record], plot)
    print(text, flush=True)


def drawn(records: Sequence[Record], path: Path) -> None:
    """Write the picture."""
    from nightschool.bench import plot

    plot.write(records, path)
    output.say(f"drawn: {path}")


def _value(name: str, key: str, text: str) -> Any:
    """A setting as a person writes it: JSON, a list with commas, or a word."""
    import json

    def one(part: str) -> Any:
        try:
            return json.loads(part)
        except ValueError:
            return part

    if not text:
        raise Problem(f"--set {key} of bench {name} has no value", f"write --set {key}=VALUE")
    return tuple(map(one, text.split(","))) if "," in text and text[0] not in "[{" else one(text)
