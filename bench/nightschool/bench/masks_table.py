"""The figures of `bench masks`: sides set beside one another, and the record as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PEERS = ("llguidance", "outlines")
NAMES = ("forward", "free", "ours", *PEERS)


def compared(step: Mapping[str, float]) -> dict[str, Any]:
    """Steps, what of them is not the pass, what is not free decoding either, and how many times ours the peers take.

    No times where noise has eaten a difference: all of them must be above the pass.
    """
    above = {name: value - step["forward"] for name, value in step.items() if name != "forward"}
    beyond = {name: value - step["free"] for name, value in step.items() if name not in ("forward", "free")}
    sound = above["ours"] > 0 and all(above[name] > 0 for name in PEERS if name in above)
    return {
        "step_ms": {name: round(value, 2) for name, value in step.items()},
        "above_forward_ms": {name: round(value, 2) for name, value in above.items()},
        "above_free_ms": {name: round(value, 2) for name, value in beyond.items()},
        "times_ours": {
            name: round(above[name] / above["ours"], 2) if sound else None for name in PEERS if name in above
        },
    }


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """For people."""
    yield f"{record['tokenizer']}, {record['vocabulary']} tokens, MLX on the {record['device']}; ms a step"
    yield record["outlines"]["note"]
    yield f"load of the machine before and after: {record['load']}"
    yield "rows temp " + "".join(f"{name:>12}" for name in NAMES) + "   all but the pass: ours, peers (times ours)"
    for row in record["rows"]:
        steps = "".join(f"{row['step_ms'].get(name, float('nan')):12.2f}" for name in NAMES)
        above, times = row["above_forward_ms"], row["times_ours"]
        peers = ", ".join(f"{name} {above[name]} ({value or '-'})" for name, value in times.items())
        yield f"{row['rows']:4} {row['temperature']:4} {steps}   {above['ours']}; {peers}"
    for row in record["rows"]:
        yield from _profile(row)
    for told in record["overlap"]:
        yield (
            f"{told['rows']} rows, pass {told['forward']} ms, fill {told['fill']} ms: step {told['step']} ms, "
            f"{told['step_without_fill']} ms without fill; {told['overlap']} ms of it hidden"
        )


def _profile(row: Mapping[str, Any]) -> Iterator[str]:
    """Where the time of our step goes."""
    parts = ", ".join(f"{name} {value}" for name, value in row["profile_ms"].items())
    yield f"ours, {row['rows']} rows, temperature {row['temperature']}: {parts}; Python {row['python_us']} us"
    yield (
        f"  {row['sampler_calls']} sampler call a step, {row['open']:.0%} of rows inside a text; "
        f"{row['valid']} of {row['replies']} replies valid"
    )
