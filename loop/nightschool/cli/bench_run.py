"""How a bench is run and its record shown: the table of benches, the options that all share, what becomes of a record.

A bench is a line of BENCHES and a module of `nightschool.bench` with `Settings`, a dataclass, and
`measure(settings, tell) -> Record`, which tells what it is about to do. Of the common options Settings gets those that it
has a field for (model, models, backend, repeats); its other fields are given with --set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.disk.errors import Problem, nearest

if TYPE_CHECKING:
    from nightschool.bench.result import Record


@dataclass(frozen=True, slots=True)
class Bench:
    """A module of `nightschool.bench`, what it measures, and the settings of a first look at it."""

    module: str
    help: str
    quick: Mapping[str, object] = field(default_factory=dict)


BENCHES = {
    "throughput": Bench(
        "throughput",
        "Tokens a second, of prompts and of replies, by batch width and length.",
        {"batch": "1,4", "prompt": 64, "gen": 8, "repeats": 2},
    ),
    "startup": Bench(
        "startup", "What a context costs before the first useful token: cold, warm, from disk, second turn."
    ),
    "l0": Bench(
        "l0", "The token tax: what standing instructions cost every session, by heading and by day.", {"quick": True}
    ),
    "constrained": Bench(
        "constrained",
        "What a grammar costs: compiling, filling masks, decoding beside free text.",
        {"targets": "10,100", "batch": 4, "gen": 16, "steps": 16, "repeats": 1},
    ),
    "loop": Bench(
        "loopcost",
        "What the loop itself costs an iteration, with an engine that answers at once.",
        {"tasks": 100, "pages": 50, "iterations": 3},
    ),
    "peers": Bench(
        "peers",
        "Our engine beside transformers, outlines, mlx-lm, vLLM and llama.cpp, by turns.",
        {"peers": "generate", "tasks": "free", "batch": 4, "gen": 8, "repeats": 1},
    ),
}

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

    return find_spec(f"nightschool.bench.{BENCHES[name].module}") is not None


def ran(name: str, asked: Asked, sets: Sequence[str] = (), **own: Any) -> Record:
    """Run a bench; `own` are settings that only it has, `sets` the same as a person writes them."""
    from dataclasses import asdict, fields
    from importlib import import_module

    if not is_there(name):
        raise Problem(f"this version of nightschool has no bench {name}", "nightschool bench --help")
    module: Any = import_module(f"nightschool.bench.{BENCHES[name].module}")
    types = {each.name: str(each.type) for each in fields(module.Settings)}
    common = asdict(asked)
    told = {**(BENCHES[name].quick if common.pop("quick") else {})}
    for key, value in common.items():
        if value is not None and key in types:
            told[key] = str(value) if types[key].startswith("str") else value
    for text in sets:
        key, _, value = text.partition("=")
        if key not in types or key in common:
            raise Problem(f"bench {name} has no setting {key!r}", nearest(key, set(types) - set(common)))
        told[key] = _value(text, types[key], value)
    with output.telling() as progress:
        record: Record = module.measure(module.Settings(**told, **own), lambda step: progress(step, 0, None))
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


def _value(told: str, kind: str, text: str) -> Any:
    """A setting as a person writes it: a word, a number, true or false, or several with commas between."""
    import json

    if kind.startswith("str"):
        return text
    try:
        if kind.startswith("tuple"):
            return tuple(json.loads(f"[{text}]"))
        value = json.loads(text)
    except ValueError:
        value = None
    if value is None or (
        type(value).__name__ not in kind and not (kind.startswith("float") and isinstance(value, int))
    ):
        raise Problem(f"--set {told} is no {kind}", "write it as --set width=8 or --set widths=1,8")
    return value
