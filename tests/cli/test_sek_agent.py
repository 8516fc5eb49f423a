"""`nightschool route`, and `sek init, adopt, index, hook, context`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """The current folder: a new tree with two pages."""
    monkeypatch.setenv("NIGHTSCHOOL_CONFIG", str(tmp_path / "config"))
    here = tmp_path / "project"
    here.mkdir()
    monkeypatch.chdir(here)
    assert run("sek", "init", "--agent", "claude").code == 0
    (here / "wiki/rules/tests.md").write_text("# Testing\n\nRun pytest before every commit.\n")
    (here / "wiki/rules/db.md").write_text("# Migrations\n\nAlembic holds a lock.\n" + "pytest lock\n" * 9)
    table = here / "wiki/_routing.md"
    table.write_text(
        table.read_text().replace("[]", "\n  - {id: t, keywords: [test suite], load: [wiki/rules/tests.md]}")
    )
    return here


def test_route_says_what_to_load_and_why(root: Path, run: Run) -> None:
    ran = run("route", "run the test suites")
    assert ran.code == 0 and "wiki/rules/tests.md" in ran.out and "test suite" in ran.out and "tokens" in ran.out
    record = json.loads(run("route", "run the test suites", "--json").out)
    assert record["schema"] == 1 and record["loads"][0]["trigger"] == "t" and record["estimated"]
    assert record["total_tokens"] == record["l0_tokens"] + sum(load["tokens"] for load in record["loads"])


def test_route_says_what_it_dropped_and_when_nothing_fits(root: Path, run: Run) -> None:
    ran = run("route", "pytest lock", "--budget", "30")
    assert "past the budget" in ran.out and "dropped" in ran.err
    ran = run("route", "good morning")
    assert ran.code == 0 and "wiki/_index.md" in ran.out and "fallback" in ran.err


def test_route_reads_stdin_and_finds_the_tree_from_below(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.chdir(root / "wiki" / "rules")
    monkeypatch.setattr("sys.stdin", io.StringIO("the test suite"))
    assert "wiki/rules/tests.md" in run("route", "-").out


def test_route_writes_nothing(root: Path, run: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    run("route", "test suite")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_page_that_cannot_be_read_and_a_broken_table_are_told(root: Path, run: Run) -> None:
    (root / "wiki/rules/bad.md").write_bytes(b"\xff")
    assert "left out: wiki/rules/bad.md:1: not UTF-8" in run("route", "test suite").err
    (root / "wiki/_routing.md").write_text("triggers:\n  - id: [\n")
    ran = run("route", "x")
    assert ran.code == 2 and "wiki/_routing.md:3: broken YAML" in ran.err and "  try: " in ran.err


def test_outside_of_a_tree_there_is_advice(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("route", "x"), ("sek", "index"), ("sek", "hook", "--install", "claude-code")):
        ran = run(*command)
        assert ran.code == 2 and "no SEK tree" in ran.err and "sek init" in ran.err


def test_init_keeps_what_is_there_and_speaks_json(root: Path, run: Run) -> None:
    record = json.loads(run("sek", "init", "--agent", "claude", "--json").out)
    assert record["written"] == [] and "CLAUDE.md" in record["kept"]
    assert "written  .gemini/commands/register.toml" in run("sek", "init", "--agent", "gemini").out
    assert run("sek", "init", "--agent", "vim").code == 2


def test_adopt_tells_what_it_made(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/deploy.md").write_text("# Deploy\n\nhelm\n")
    (tmp_path / "wiki/bad.md").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    ran = run("sek", "adopt")
    assert ran.code == 0 and "1 pages, 1 triggers" in ran.out and "left out: wiki/bad.md" in ran.err
    assert "wiki/deploy.md" in run("route", "deploy it").out
    assert run("sek", "adopt").code == 2


def test_index_follows_the_pages_and_check_is_for_ci(root: Path, run: Run) -> None:
    assert run("sek", "index", "--check").code == 1
    assert "written  wiki/_index.md" in run("sek", "index").out
    assert "wiki/rules/db.md" in (root / "wiki/_index.md").read_text() and (root / "memory/terms.json").exists()
    assert run("sek", "index", "--check").code == 0 and run("sek", "index").out == ""
    (root / "wiki/_index.md").write_text("mine\n")
    assert run("sek", "index").code == 0 and (root / "wiki/_index.md").read_text() == "mine\n"


def test_the_hook_goes_in_and_out(root: Path, run: Run) -> None:
    settings = root / ".claude/settings.json"
    assert (
        "installed" in run("sek", "hook", "--install", "claude-code").out and "UserPromptSubmit" in settings.read_text()
    )
    assert "nothing to change" in run("sek", "hook", "--install", "claude-code").out
    assert "removed" in run("sek", "hook", "--remove", "claude-code").out and not settings.exists()
    ran = run("sek", "hook", "--install", "claude-code", "--settings", str(root / "other.json"))
    assert ran.code == 0 and (root / "other.json").exists() and not settings.exists()
    assert run("sek", "hook").code == 2 and run("sek", "hook", "--install", "emacs").code == 2


def test_context_answers_in_this_process_too(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    told = {"session_id": "s", "cwd": str(root), "hook_event_name": "UserPromptSubmit", "prompt": "the test suite"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(told)))
    ran = run("sek", "context")
    assert ran.code == 0 and "Run pytest" in json.loads(ran.out)["hookSpecificOutput"]["additionalContext"]
    assert "silent" in run("sek", "context", "--help").out
