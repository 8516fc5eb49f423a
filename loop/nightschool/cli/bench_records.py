"""`nightschool bench compare | history`: kept records, and whether one is faster or dearer than another."""

from __future__ import annotations

from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.bench_run import Format, Plot, drawn
from nightschool.cli.options import Json

Which = "A file, or a part of a record's name in `bench history`."


def add(app: typer.Typer) -> None:
    """Add these commands to `nightschool bench`."""
    app.command("compare")(compare)
    app.command("history")(history)
    app.command("show")(show)


def compare(
    before: Annotated[str, typer.Argument(metavar="A", help=Which)],
    after: Annotated[str, typer.Argument(metavar="B", help=Which)],
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", min=0, max=10, help="How much worse is a regression: 0.05 is 5%.")
    ] = 0.05,
    as_json: Json = False,
) -> None:
    """Say whether B differs from A: a ratio and its interval for each figure.

    Only like is compared with like: the same bench, machine, model, dtype and backend. Other kept runs of A tell how much
    one run differs from the next anyway. Exit code 1: something got worse, surely, and by more than the threshold.
    """
    from nightschool.bench import compare_view, kept, render
    from nightschool.bench.compare import compare as judge

    one, other = kept.find(before), kept.find(after)
    runs = [each.record for each in kept.every(bench=one.bench) if each.record]
    found = judge(one, other, threshold=threshold, kept=runs)
    if as_json:
        output.data(found.as_json())
    else:
        table = compare_view.table(found)
        if table.rows:
            print(render.drawn(table))
            print()
        print("\n".join(render.wrapped(compare_view.told(found))), flush=True)
    if found.regressions:
        raise typer.Exit(1)


def history(
    bench: Annotated[str | None, typer.Option(metavar="NAME", help="Of this bench only.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="ALIAS", help="Of this model only.")] = None,
    as_json: Json = False,
) -> None:
    """List the records that are kept, the newest first."""
    from nightschool.bench import kept
    from nightschool.bench.tables import figure

    found = list(kept.every(bench=bench, model=model))
    for each in found:
        if each.record is None:
            output.say(f"left out: {each.problem}")
    records = [(each, each.record, kept.headline(each.record)) for each in found if each.record]
    if as_json:
        output.data(
            [
                {
                    "name": each.name,
                    "file": str(each.path),
                    "bench": record.bench,
                    "at": record.at,
                    "model": record.model.alias if record.model else None,
                    "headline": {"name": head.name, "median": head.median, "unit": head.unit} if head else None,
                }
                for each, record, head in records
            ]
        )
        return
    if not records:
        output.say("no record is kept: nightschool bench all --quick makes some")
        return
    rows = [
        (
            each.name,
            record.model.alias if record.model else "-",
            f"{head.name} {figure(head)} {head.unit}" if head else "-",
        )
        for each, record, head in records
    ]
    output.table(("record", "model", "its first figure"), rows)


def show(
    names: Annotated[list[str], typer.Argument(metavar="RECORD...", help=Which)],
    form: Format = "table",
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Print kept records again, in any format, or draw them."""
    from nightschool.bench import kept, render

    records = [kept.find(name) for name in names]
    text = render.render(records, "json" if as_json else form)
    if plot:
        drawn(records, plot)
    print(text, flush=True)
