"""`nightschool suite`: exit codes, data on stdout."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nightschool.cli.suite import app
from nightschool.disk.errors import Problem
from nightschool.loop.suite import materialise


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args)


def test_check_says_what_a_suite_can_show(tmp_path: Path) -> None:
    materialise("style", tmp_path / "suite")
    for folder in (tmp_path / "suite", tmp_path):  # the suite, and a workspace around it
        result = run("check", str(folder))
        assert result.exit_code == 0
        assert result.stdout.startswith("style: 16 train, 16 val, 24 test\n")
        assert "note: 16 val tasks: the smallest visible gain is " in result.stdout


def test_check_fails_when_a_task_cannot_be_graded_right(tmp_path: Path) -> None:
    folder = materialise("runbook", tmp_path / "suite").folder
    grader = {"kind": "regex", "pattern": "^no$", "expected": "yes"}
    with (folder / "val.jsonl").open("a") as file:
        file.write(json.dumps({"id": "bad", "prompt": "Yes or no, then?", "grader": grader}) + "\n")
    result = run("check", str(folder), "--json")
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert (record["name"], record["tasks"]) == ("runbook", {"train": 16, "val": 33, "test": 32})
    assert record["findings"][0]["level"] == "error"
    assert record["findings"][0]["text"].startswith("bad: the expected answer fails its own grader: ")


def test_a_bad_suite_is_a_problem_for_the_root(tmp_path: Path) -> None:
    result = run("check", str(tmp_path))
    assert isinstance(result.exception, Problem)
    assert result.exception.what == f"{tmp_path}: no suite.toml"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_list_names_the_generated_suites(flags: tuple[str, ...]) -> None:
    result = run("list", *flags)
    assert result.exit_code == 0
    if flags:
        assert [row["name"] for row in json.loads(result.stdout)] == ["runbook", "style"]
    assert "The runbook suite: sixteen things" in result.stdout
