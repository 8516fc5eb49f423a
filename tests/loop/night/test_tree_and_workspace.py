"""A folder may be a SEK tree and a workspace, whichever it was first."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop.workspace import Config, create, find
from nightschool.sek.tree import Tree

PLANTED = {
    "wiki/_routing.md": "triggers: []\n",
    "wiki/_index.md": "# Index\n",
    "wiki/rules/mine.md": "# Mine\n",
    "CLAUDE.md": "# Me\n",
}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    for path, text in PLANTED.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def untouched(root: Path) -> bool:
    return all((root / path).read_text() == text for path, text in PLANTED.items())


def test_a_tree_becomes_a_workspace_and_keeps_its_pages(planted: Path) -> None:
    create(planted, "runbook:1", Config(suite="runbook:1"))
    assert find(planted).root == planted and Tree(planted).exists()
    assert Tree(planted).pages() == ["wiki/rules/mine.md"]
    assert untouched(planted)


def test_a_failure_takes_back_nothing_of_the_tree(planted: Path) -> None:
    with pytest.raises(Problem):
        create(planted, "no such suite", Config(suite="none"))
    assert untouched(planted) and not (planted / "wiki/patterns").exists() and not (planted / "skills").exists()


@pytest.mark.parametrize("path", ["wiki/patterns/x.md", "wiki/index.md", "wiki/logs.md", "wiki/skill-impact.md"])
def test_what_the_night_would_write_must_not_be_there(planted: Path, path: str) -> None:
    (planted / path).parent.mkdir(exist_ok=True)
    (planted / path).write_text("mine")
    with pytest.raises(Problem, match="exists already"):
        create(planted, "runbook:1", Config(suite="runbook:1"))
    assert untouched(planted) and (planted / path).read_text() == "mine"


def test_a_wiki_that_is_no_tree_is_not_shared(planted: Path) -> None:
    (planted / "wiki/_routing.md").unlink()
    with pytest.raises(Problem, match="wiki exists already"):
        create(planted, "runbook:1", Config(suite="runbook:1"))
