"""The table of several nights: what it says follows from their statuses."""

from typing import Any

from nightschool.bench.learning import summary


def record(seed: int, control: str, first: float, final: float) -> dict[str, Any]:
    return {
        "suite_seed": seed,
        "control": control,
        "test": {"first": first, "final": final, "delta": final - first},
        "iterations": [{"accepted": final > first}],
        "replies": {"total": 3, "valid": 3, "retried": 0, "degraded": 0},
        "edits": {"total": 2, "applied": 2, "append": 1, "replace": 1, "insert_after": 0},
        "seconds": 1.0,
    }


def test_one_line_a_control_with_the_mean_and_its_interval() -> None:
    lines = list(summary([record(1, "none", 0.0, 0.5), record(2, "none", 0.1, 0.4), record(1, "placebo", 0.0, 0.0)]))
    assert [line["control"] for line in lines] == ["none", "placebo"]
    ours = lines[0]
    assert ours["mean_gain"] == 0.4
    assert ours["ci95"][0] <= 0.4 <= ours["ci95"][1]
    assert (ours["lowest_gain"], ours["highest_first"], ours["accepted"]) == (0.4 - 0.1, 0.1, [1, 1])
    assert ours["replies"] == {"total": 6, "valid": 6, "retried": 0, "degraded": 0}
    assert ours["edits"]["replace"] == 2
    assert lines[1]["mean_gain"] == 0.0
