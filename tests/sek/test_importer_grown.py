"""A grown instruction file beside a tree that `sek init` or `sek adopt` has made is imported like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightschool.disk.errors import Problem
from nightschool.sek import importer, undo
from nightschool.sek.counting import Counter
from nightschool.sek.routing import Routing, rendered
from nightschool.sek.tree import Tree

GROWN = "# My project\n\n- Never commit to main.\n\n" + "".join(
    f"## Topic {name}\n\nAbout {name} there is much to say, because {name} fails otherwise.\n\n"
    for name in ("tea", "rum")
)
COUNT = Counter("estimated", None).count


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree whose L0 is a grown file, and a page by hand."""
    files = {
        "CLAUDE.md": GROWN,
        "wiki/_routing.md": rendered(Routing(bootstrap="CLAUDE.md")),
        "wiki/rules/mine.md": "# Mine\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_it_becomes_l0_and_pages_and_undo_takes_it_back(root: Path) -> None:
    made = importer.plan([root / "CLAUDE.md"], root, COUNT)
    importer.apply(made)
    tree = Tree(root)
    assert (root / "CLAUDE.md.orig").read_text() == GROWN
    assert "## Critical Rules" in tree.read("CLAUDE.md") and "Never commit to main." in tree.read("CLAUDE.md")
    assert "wiki/rules/mine.md" in tree.pages() and len(tree.pages()) > 1
    assert importer.plan([root / "CLAUDE.md"], root, COUNT).is_done
    undo.undo(root)
    assert (root / "CLAUDE.md").read_text() == GROWN
    assert Tree(root).pages() == ["wiki/rules/mine.md"]


def test_an_l0_that_is_one_is_not_taken_apart(root: Path) -> None:
    sections = ("Identity", "Categories", "Triggers", "Critical Rules")
    (root / "CLAUDE.md").write_text("".join(f"## {title}\n\ntext\n\n" for title in sections))
    with pytest.raises(Problem, match="already this tree's L0"):
        importer.plan([root / "CLAUDE.md"], root, COUNT)


def test_a_kept_original_is_not_imported(root: Path) -> None:
    (root / "CLAUDE.md.orig").write_text(GROWN)
    with pytest.raises(Problem, match="what an import keeps"):
        importer.plan([root / "CLAUDE.md.orig"], root, COUNT)
