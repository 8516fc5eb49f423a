"""The bench of the router: it makes its trees and tells every figure; no figure is asserted."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from nightschool.bench import route


def test_it_measures_every_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(route, "SIZES", ((12, 3),))
    assert route.main(["--prompts", "5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (row,) = record["sizes"]
    assert set(row) == {field.name for field in fields(route.Timed)} and row["pages"] == 12
    assert all(value > 0 for value in row.values()) and record["machine"]
    assert route.main(["--prompts", "5"]) == 0
    assert "triggers" in capsys.readouterr().out
