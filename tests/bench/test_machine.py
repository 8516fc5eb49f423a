"""The record of a machine: every step runs, and says what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightschool.bench import machine
from nightschool.bench.machine import Step


def test_a_step_that_fails_hangs_or_does_not_exist_is_told_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = sys.executable
    made = [
        Step("json", (python, "-c", "print('{\"a\": 1}')"), True),
        Step("no json", (python, "-c", "print('hello')"), True),
        Step("fails", (python, "-c", "import sys; print('why'); sys.exit(3)")),
        Step("missing", (str(tmp_path / "nothing"), "x")),
        Step("hangs", (python, "-c", "import time; print('so far', flush=True); time.sleep(60)")),
        Step("fine", (python, "-c", "")),
    ]
    monkeypatch.setattr(machine, "steps", lambda backend, work: made)
    monkeypatch.setattr(machine, "LIMIT", 5)
    out = tmp_path / "record.json"
    assert machine.main(["--out", str(out)]) == 1
    record = json.loads(out.read_text())
    assert not record["ok"]
    assert {step["name"]: step["ok"] for step in record["steps"]} == {
        "json": True,
        "no json": False,
        "fails": False,
        "missing": False,
        "hangs": False,
        "fine": True,
    }
    assert record["steps"][0]["data"] == {"a": 1}
    assert "why" in record["steps"][2]["tail"]
    assert "so far" in record["steps"][4]["tail"] and "no end" in record["steps"][4]["tail"]


def test_the_steps_are_commands_that_exist(tmp_path: Path) -> None:
    always = ["doctor", "engine", "kernels", "suite", "night", "status"]
    assert [step.name for step in machine.steps("mlx", tmp_path)] == [*always, "masks"]
    assert [step.name for step in machine.steps("vllm", tmp_path)] == [*always, "agree", "overhead"]


def test_the_measures_are_commands_of_bench(tmp_path: Path) -> None:
    for backend in ("mlx", "vllm"):
        for step in machine.steps(backend, tmp_path):
            if step.command[1:3] == ("-m", "bench"):
                name, *options = step.command[3:]
                told = subprocess.run(
                    [sys.executable, "-m", "bench", name, "--help"],
                    cwd=Path(__file__).parents[2],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                assert all(option in told for option in options)
