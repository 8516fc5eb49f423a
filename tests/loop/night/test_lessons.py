"""Patterns become rules of a SEK tree at the end of a night, once, and what a person does to them stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightschool.loop import lessons, wiki
from nightschool.sek import commands, lint
from nightschool.sek.router import Router
from nightschool.sek.tree import Tree

TABLE = """\
# mine
triggers:
  - id: cake
    keywords: [cake]
    load: [wiki/rules/cake.md]  # by hand
"""
Write = Callable[..., None]


class Letters:
    name = "letters"

    def count(self, text: str) -> int:
        return len(text)


def pattern(identity: str, *tasks: str, fix: str = "Look the value up in the house table.") -> str:
    cited = "".join(f"- iter-001/train/{task}\n" for task in tasks)
    return (
        f"---\nid: {identity}\nkind: failure\nscope: general\nevidence:\n{cited}first_seen: 1\nlast_seen: 1\n---\n"
        f"# {identity}\n\n## Problem\n- The value was guessed.\n\n## Root cause\n"
        f"- Nobody looked it up, because no page says it.\n\n## Evidence\n\n## Fix\n- {fix}\n"
    )


@pytest.fixture
def tree(toy: Any) -> Any:
    """A workspace that is a tree too."""
    toy.write("wiki/_routing.md", TABLE)
    toy.write(
        "wiki/rules/cake.md", "# Cakes\n\n[CAKE-001] Cakes are baked at 180 degrees, because they burn otherwise.\n"
    )
    toy.write("AGENTS.md", "# Me\n\n## Critical Rules\n")
    toy.write("wiki/patterns/house-values.md", pattern("house-values", "train-k0", "train-k1", "train-k2"))
    toy.write("wiki/patterns/rare-thing.md", pattern("rare-thing", "train-k0", "train-k1", fix="Read twice."))
    return toy


def log(toy: Any) -> list[dict[str, Any]]:
    path = toy.space.root / "memory/log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def contents(root: Path) -> dict[str, bytes]:
    kept = (path for part in ("wiki", "memory") for path in (root / part).rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in kept if path.name != ".lock"}


def test_a_pattern_of_three_tasks_becomes_a_rule_and_one_of_two_does_not(tree: Any) -> None:
    tree.night()
    rule = tree.read("wiki/rules/house-values.md")
    assert "Fix: Look the value up in the house table." in rule
    assert "(../patterns/house-values.md)" in rule
    assert "The value was guessed" not in rule, "a link, never a copy"
    assert not (tree.space.root / "wiki/rules/rare-thing.md").exists()
    assert [(event["event"], event["tag"], event["pattern"]) for event in log(tree)] == [
        ("promoted", "HOUSE-VALUES-001", "house-values")
    ]
    assert "📚 Promoted: [HOUSE-VALUES-001] -> wiki/rules/house-values.md" in tree.watcher.notes
    assert not (tree.space.root / "memory/inbox.md").exists()


def test_its_trigger_routes_and_nothing_of_a_person_is_touched(tree: Any) -> None:
    tree.night()
    table = tree.read("wiki/_routing.md")
    assert table.startswith(TABLE) and table.count("by: night") == 1
    route = Router.load(Tree(tree.space.root), Letters()).route("what are the house values here?")
    assert "wiki/rules/house-values.md" in [load.path for load in route.loads]
    found = lint.run(Tree(tree.space.root), len)
    assert not [finding for finding in found if finding.path == "wiki/rules/house-values.md"]


def test_twice_changes_nothing(tree: Any) -> None:
    tree.night()
    before = contents(tree.space.root)
    assert lessons.promote(tree.space.root) == ()
    assert contents(tree.space.root) == before


def test_a_rule_follows_its_pattern_until_a_person_edits_it(tree: Any) -> None:
    lessons.promote(tree.space.root)
    tree.write("wiki/patterns/house-values.md", pattern("house-values", "a", "b", "c", "d", fix="Ask the table."))
    assert lessons.promote(tree.space.root) == (
        "Updated: [HOUSE-VALUES-001] in wiki/rules/house-values.md follows wiki/patterns/house-values.md",
    )
    assert "Fix: Ask the table." in tree.read("wiki/rules/house-values.md")
    mine = tree.read("wiki/rules/house-values.md") + "\nMy own remark.\n"
    tree.write("wiki/rules/house-values.md", mine)
    tree.write("wiki/patterns/house-values.md", pattern("house-values", "a", "b", "c", fix="Something else."))
    assert lessons.promote(tree.space.root) == ()
    assert tree.read("wiki/rules/house-values.md") == mine


def test_a_revoked_rule_does_not_come_back(tree: Any) -> None:
    lessons.promote(tree.space.root)
    commands.revoke(Tree(tree.space.root), "HOUSE-VALUES-001", "it is wrong")
    assert not (tree.space.root / "wiki/rules/house-values.md").exists()
    tree.write("wiki/patterns/house-values.md", pattern("house-values", "a", "b", "c", "d"))
    assert lessons.promote(tree.space.root) == ()
    assert not (tree.space.root / "wiki/rules/house-values.md").exists()


def test_what_a_rule_says_already_is_not_written_twice(tree: Any) -> None:
    said = wiki.Page("house-values", tree.read("wiki/patterns/house-values.md"))
    tree.write("wiki/rules/mine.md", lessons.render("MINE-001", said))
    lessons.promote(tree.space.root)
    assert not (tree.space.root / "wiki/rules/house-values.md").exists()
    assert [(event["event"], event["tag"]) for event in log(tree)] == [("known-already", "MINE-001")]
    assert lessons.promote(tree.space.root) == ()


def test_two_patterns_of_one_name_and_a_page_in_the_way(tree: Any) -> None:
    tree.write("wiki/rules/house-values.md", "# Mine\n")
    tree.write(
        "wiki/patterns/house-values-2.md", pattern("house-values-2", "a", "b", "c", fix="Open the second drawer.")
    )
    lessons.promote(tree.space.root)
    assert tree.read("wiki/rules/house-values.md") == "# Mine\n"
    tags = [event["tag"] for event in log(tree)]
    assert len(tags) == len(set(tags)) == 2
    assert len({event["path"] for event in log(tree)}) == 2


def test_a_tree_in_disorder_costs_the_night_nothing(tree: Any) -> None:
    tree.write("wiki/_routing.md", "triggers: [\n")
    journal = tree.night()
    assert not journal.unfinished
    assert any(note.startswith("no pattern became a rule: ") for note in tree.watcher.notes)


def test_a_secret_in_a_fix_is_not_handed_on(tree: Any) -> None:
    fix = "Send the token ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2 + " along."
    tree.write("wiki/patterns/house-values.md", pattern("house-values", "a", "b", "c", fix=fix))
    told = lessons.promote(tree.space.root)
    assert len(told) == 1 and told[0].startswith("not promoted: wiki/rules/house-values.md: ")
    assert not (tree.space.root / "wiki/rules/house-values.md").exists()


def test_old_drafts_expire_with_a_night(tree: Any) -> None:
    tree.write(
        "memory/inbox.md", "- [2020-01-01] slow build · unexpected · s1\n  expected: fast got: slow\n  where: ci\n"
    )
    tree.night()
    assert "slow build" not in tree.read("memory/inbox.md")
    assert next(event["event"] for event in log(tree)) == "expired"


def test_a_workspace_that_is_no_tree_stays_none(toy: Any) -> None:
    toy.write("wiki/patterns/house-values.md", pattern("house-values", "a", "b", "c"))
    toy.night()
    assert not (toy.space.root / "memory").exists()
    assert not (toy.space.root / "wiki/rules").exists()
