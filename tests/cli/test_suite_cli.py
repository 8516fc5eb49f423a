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


def broken(folder: Path) -> Path:
    """A suite with a fault in its toml, two bad lines of a split, a repeated id and a split that is not there."""
    suite = materialise("runbook", folder / "suite").folder
    good = (suite / "val.jsonl").read_text().splitlines()
    (suite / "suite.toml").write_text((suite / "suite.toml").read_text() + "\n[more]\n")
    train = (suite / "train.jsonl").read_text().splitlines()
    train[1], train[3] = "{", '{"id": "x"}'
    (suite / "train.jsonl").write_text("\n".join(train) + "\n")
    (suite / "val.jsonl").write_text("\n".join([*good, good[0]]) + "\n")
    (suite / "test.jsonl").unlink()
    return suite


def test_check_tells_all_that_is_wrong(tmp_path: Path) -> None:
    suite = broken(tmp_path)
    result = run("check", str(suite))
    assert (result.exit_code, result.stdout) == (2, "")
    told = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    count = len((suite / "val.jsonl").read_text().splitlines())
    assert [line.split(": ")[1] for line in told] == [
        *(f"{suite}/suite.toml:{len((suite / 'suite.toml').read_text().splitlines())}", f"{suite}/train.jsonl:2"),
        *(f"{suite}/train.jsonl:4", str(suite), f"{suite}/val.jsonl:{count}"),
    ]
    assert result.stderr.count("\n  try: ") == 5 and result.stderr.endswith("\n5 faults\n")
    found = json.loads(run("check", str(suite), "--json").stdout)["findings"]
    assert [finding["level"] for finding in found] == ["error"] * 5
    assert found[1]["text"].startswith(f"{suite}/train.jsonl:2: not JSON") and found[1]["try"]
