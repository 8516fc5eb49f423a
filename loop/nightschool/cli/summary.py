"""The night in a screen: what val did, what was kept, the test split before and after, the cost, and how to undo it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nightschool.cli import output
from nightschool.cli.figures import chance, clock, score, sparkline
from nightschool.cli.view import verdict, why

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nightschool.loop.workspace import Workspace


def summary(space: Workspace, record: Mapping[str, Any], *, running: bool = False) -> None:
    """Print it on stdout."""
    output.draw(summarised(str(space.root), record, running=running))


def summarised(root: str, record: Mapping[str, Any], *, running: bool = False) -> RenderableType:
    """The summary as something rich can draw."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_head(record)]
    if record["state"] == "new":
        start = output.command("evolve", root)
        return Group(*parts, Text(f"no night has been run yet; start one: {start}", style="dim"))
    if record["baseline"] is not None:
        parts += [Text(), _iterations(record), Text(), _figures(record)]
    if record["state"] == "unfinished":
        parts += [Text(), Text("running" if running else f"stopped; go on with: {output.command('evolve', root)}")]
    undo = [
        Text(f'undo  {output.command("skills", "revoke", name, root)} --reason "..."', style="dim")
        for name in kept(record)
    ]
    return Group(*parts, *([Text()] if undo else []), *undo)


def kept(record: Mapping[str, Any]) -> list[str]:
    """Skills that the night's gate let in and that still stand."""
    return list(dict.fromkeys(item["skill"] for item in record["iterations"] if verdict(item) == "kept"))


def _head(record: Mapping[str, Any]) -> RenderableType:
    from rich.text import Text

    control = "" if record["control"] == "none" else f"control {record['control']}"
    state = record["state"] + (f": {record['ended']}" if record["ended"] else "")
    done = f"{len(record['iterations'])} of {record['planned']} iterations" if record["state"] != "new" else ""
    facts = [record["model"] or "", f"gate {record['gate']}", f"seed {record['seed']}", control, state, done]
    return Text.assemble((_suite(record), "bold cyan"), ("  " + " · ".join(filter(None, facts)), "dim"))


def _suite(record: Mapping[str, Any]) -> str:
    """`style:7`, or the name of a person's own suite and where it came from."""
    name, source = record["suite_name"], record["suite"]
    return source if name is None or source.partition(":")[0] == name else f"{name} ({source})"


def _iterations(record: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("k", justify="right")
    table.add_column("val", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("change", overflow="fold")
    table.add_column("why", overflow="fold")
    table.add_row("", score(record["baseline"]), "", "the skills as they were", "", style="dim")
    for item in record["iterations"]:
        told = verdict(item)
        style = {"kept": "green", "revoked": "yellow"}.get(told, "")
        change = f"{item['action']} {item['skill']}" if item["skill"] else "-"
        mark = {"kept": "✓", "rejected": "✗", "no change": "·", "revoked": "✗"}[told]
        table.add_row(
            str(item["k"]),
            score(item["score"]),
            Text(f"{mark} {told}", style=style or "dim"),
            Text(change, style),
            Text(why(item), "dim"),
        )
    return table


def _figures(record: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold", style="dim")
    curve = [record["baseline"], *(item["score"] for item in record["iterations"] if item["score"] is not None)]
    grid.add_row("val", _gain(record["baseline"], record["best"]), Text(sparkline(curve), "cyan"))
    test = record["test"]
    if test is not None:
        low, high = test["ci95"]
        told = f"gain {test['delta']:+.3f}, 95% interval {low:+.3f} to {high:+.3f}, p {chance(test['p_value'])}"
        grid.add_row("test", _gain(test["first"], test["final"]), told)
    tokens, replies = record["tokens"], record["replies"]
    cached = f" ({tokens['cached'] / tokens['prompt']:.0%} from the cache)" if tokens["prompt"] else ""
    told = f"{tokens['prompt']:,} prompt tokens{cached}, {tokens['generated']:,} generated"
    grid.add_row("time", Text(clock(record["seconds"])), told)
    if record["injected"] is not None:
        grid.add_row("skill", Text(f"{record['injected']:,.0f} tokens"), "in each task's prompt, on average")
    if replies["total"]:
        told = f"{replies['retried']} asked again, {replies['degraded']} not used"
        grid.add_row("valid", Text(f"{replies['valid']} of {replies['total']}"), f"replies under a grammar; {told}")
    return grid


def _gain(first: float, last: float) -> RenderableType:
    from rich.text import Text

    style = "bold green" if last > first else "bold red" if last < first else "bold"
    return Text.assemble(f"{first:.3f} → ", (f"{last:.3f}", style))
