"""New trees for each agent, and old wikis that become trees without being touched."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from tests.sek.conftest import Words

from nightschool.disk.errors import Problem
from nightschool.sek.adopt import adopt
from nightschool.sek.bootstrap import parse as sections
from nightschool.sek.router import Router
from nightschool.sek.start import BOOTSTRAPS, CONVEYOR, command_files, init
from nightschool.sek.tree import Tree


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", BOOTSTRAPS)
def test_a_new_tree_has_its_l0_with_the_conveyor_and_can_be_routed(tmp_path: Path, agent: str) -> None:
    made = init(Tree(tmp_path), agent, Words(), "Japanese")
    tree = Tree.find(tmp_path)
    assert tree.bootstrap.name == BOOTSTRAPS[agent] and not made.kept
    l0 = tree.bootstrap.read_text("utf-8")
    assert list(sections(l0)) == ["Identity", "Categories", "Triggers", "Critical Rules"]
    assert "Japanese" in l0 and CONVEYOR in l0
    for kind in ("unexpected", "workaround", "undocumented-api", "correction"):
        assert f"({kind})" in l0 or f"kind {kind}" in l0
    assert Router.load(tree, Words()).route("anything").fallback
    assert "terms.json" in (tmp_path / "memory/.gitignore").read_text().split()
    assert set(command_files(agent)) <= set(made.written)


def test_nothing_that_is_there_is_changed(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("mine")
    made = init(Tree(tmp_path), "claude", Words())
    assert "CLAUDE.md" in made.kept and (tmp_path / "CLAUDE.md").read_text() == "mine"
    before = files(tmp_path)
    again = init(Tree(tmp_path), "claude", Words())
    assert not again.written and files(tmp_path) == before


def test_a_second_agent_is_led_to_the_same_l0(tmp_path: Path) -> None:
    init(Tree(tmp_path), "claude", Words())
    made = init(Tree(tmp_path), "gemini", Words())
    assert (tmp_path / "GEMINI.md").read_text() == "@CLAUDE.md\n" and "wiki/_routing.md" in made.kept
    init(Tree(tmp_path), "codex", Words())
    assert "CLAUDE.md" in (tmp_path / "AGENTS.md").read_text()


def test_commands_have_the_form_of_their_agent(tmp_path: Path) -> None:
    for path, text in command_files("claude").items():
        assert path in {f".claude/commands/{name}.md" for name in ("register", "promote", "revoke")}
        head = yaml.safe_load(text.split("---\n")[1])
        assert head["description"] and "$ARGUMENTS" in text
    for path, text in command_files("gemini").items():
        record = tomllib.loads(text)
        assert path.endswith(".toml") and "{{args}}" in record["prompt"] and record["description"]
    for path, text in command_files("generic").items():
        head = yaml.safe_load(text.split("---\n")[1])
        assert path == f".agents/skills/{head['name']}/SKILL.md" and len(head["description"]) < 1024
    assert command_files("codex") == command_files("generic")


def test_an_unknown_agent_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no agent is called 'cluade'") as caught:
        init(Tree(tmp_path), "cluade", Words())
    assert caught.value.advice == "did you mean 'claude'?" and not files(tmp_path)


@pytest.mark.model
@pytest.mark.parametrize("agent", BOOTSTRAPS)
def test_a_new_l0_is_within_its_budget(tmp_path: Path, agent: str) -> None:
    from nightschool.sek.counting import counter

    init(Tree(tmp_path), agent, counter())
    assert counter().count(Tree(tmp_path).bootstrap.read_text()) < 400


WIKI: dict[str, str | bytes] = {
    "AGENTS.md": "the agent\n",
    "wiki/index.md": "# Catalogue\n",
    "wiki/design/design-system.md": "# Design system\n\nButtons, buttons and tokens of colour; palette palette.\n",
    "wiki/design/colours.md": "# A title that is a good deal too long to be typed by anybody\n\n"
    "Chroma, chroma, chroma and chroma.\n",
    "wiki/deploy.md": b"\xef\xbb\xbf# Deploy\r\n\r\nHelm charts; helm upgrade.\r\n",
    "wiki/bad.md": b"\xff",
}


def write(root: Path) -> Tree:
    for path, text in WIKI.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Tree(root)


def test_a_wiki_is_adopted_and_not_a_byte_of_it_changes(tmp_path: Path) -> None:
    tree = write(tmp_path)
    before = files(tmp_path)
    made = adopt(tree, Words())
    after = files(tmp_path)
    assert {path: after[path] for path in before} == before
    assert set(after) - set(before) == {*made.written, "memory/terms.json"}
    assert (made.pages, made.bootstrap, made.problems) == (3, "AGENTS.md", ("wiki/bad.md:1: not UTF-8",))
    router = Router.load(Tree(tmp_path), Words())
    assert not router.index.changed
    for text, page in (
        ("the design systems", "design/design-system"),
        ("chroma", "design/colours"),
        ("helm", "deploy"),
    ):
        load = router.route(text).loads[0]
        assert load.path == f"wiki/{page}.md" and load.trigger == page.rpartition("/")[2]
    assert {trigger.by for trigger in router.keywords.routing.triggers} == {"adopt"}


def test_there_must_be_a_wiki_and_no_tree_yet(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="there is no folder"):
        adopt(Tree(tmp_path), Words())
    (tmp_path / "wiki").mkdir()
    with pytest.raises(Problem, match="has no pages"):
        adopt(Tree(tmp_path), Words())
    adopt(write(tmp_path), Words())
    with pytest.raises(Problem, match="is a SEK tree already"):
        adopt(Tree(tmp_path), Words())
