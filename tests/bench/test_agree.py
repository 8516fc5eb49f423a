"""Which answers two backends give alike, and what the bench says of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from nightschool.bench import agree


def record(answers: Sequence[str]) -> dict[str, Any]:
    named = {f"t{number}": answer for number, answer in enumerate(answers)}
    return {"answers": named, "score": 0.5, "engine": {"backend": "x"}}


@pytest.mark.parametrize(("differing", "code"), [(0, 0), (1, 0), (2, 1), (20, 1)])
def test_the_share_of_equal_answers_against_the_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], differing: int, code: int
) -> None:
    heard: list[tuple[str, list[str]]] = []
    sides = iter([record(["yes"] * 20), record(["no"] * differing + ["yes"] * (20 - differing))])

    def asked(python: str, arguments: Sequence[str]) -> dict[str, Any]:
        heard.append((python, list(arguments)))
        return next(sides)

    monkeypatch.setattr(agree, "asked", asked)
    assert agree.main(["--python", "one,other", "--suite", "runbook:3", "--model", "m"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["equal"] == round(1 - differing / 20, 4) and told["tasks"] == 20
    assert sorted(told["different"]) == sorted(f"t{number}" for number in range(differing))
    assert [python for python, _ in heard] == ["one", "other"]
    assert [arguments[1] for _, arguments in heard] == ["transformers", "vllm"]
    assert all(
        arguments[2:] == ["--alone", "--suite", "runbook:3", "--splits", "val", "--model", "m"]
        for _, arguments in heard
    )
