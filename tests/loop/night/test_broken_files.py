"""The machine's own files, damaged by hand: a Problem that names the file, whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop import traces
from nightschool.loop.report import status
from nightschool.loop.workspace import Config, create, find


def mend(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "change",
    [
        {"suite": 9},
        {"models": 5},
        {"models": ["a"]},
        {"models": None},
        {"models": {"student": 5}},
        {"seed": "x"},
        {"backend": 3},
        {"control": []},
        {"table": None},
        {"measured": [1]},
    ],
)
def test_a_configuration_of_another_kind(toy: Any, change: dict[str, Any]) -> None:
    mend(toy.space.root / "config.json", **change)
    with pytest.raises(Problem, match=r"config\.json: '"):
        toy.space.config()


def test_a_configuration_that_is_nested_without_an_end(toy: Any) -> None:
    (toy.space.root / "config.json").write_text("[" * 100_000)
    with pytest.raises(Problem, match=r"config\.json"):
        find(toy.space.root).config()


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"roles": None}),
        (0, {"identity": 1}),
        (1, {"k": "x"}),
        (1, {"event": [1]}),
        (1, {"usage": 5}),
        (1, {"usage": {"prompt_tokens": "a"}}),
        (1, {"seconds": None}),
        (2, {"score": "x"}),
        (2, {"score": None}),
    ],
)
def test_a_journal_of_another_kind(toy: Any, number: int, change: dict[str, Any]) -> None:
    toy.night()
    lines = [json.loads(line) for line in toy.space.journal.read_text().splitlines()]
    lines[number] |= change
    toy.space.journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(Problem, match=r"journal\.jsonl"):
        status(toy.space)


@pytest.mark.parametrize(
    "change", [{"score": "x"}, {"score": None}, {"answer": None}, {"messages": ["a"]}, {"usage": 5}, {"reason": 1}]
)
def test_a_trace_of_another_kind(toy: Any, change: dict[str, Any]) -> None:
    toy.night()
    mend(toy.space.raw / "iter-001/train/train-k0.json", **change)
    with pytest.raises(Problem, match="damaged trace"):
        traces.read(toy.space.raw, "iter-001/train/train-k0")


def test_a_trace_that_is_nested_without_an_end(toy: Any) -> None:
    toy.night()
    (toy.space.raw / "iter-001/train/train-k0.json").write_text("[" * 100_000)
    with pytest.raises(Problem, match="damaged trace"):
        traces.read(toy.space.raw, "iter-001/train/train-k0")


def test_a_workspace_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(Problem):
            create(place, "style:0", Config(suite="style:0"))
