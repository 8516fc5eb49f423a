"""The tree on disk: what counts as a page, what lies outside, and what a pending transaction has done already."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.sek.conftest import Plant

from nightschool.disk.errors import Problem
from nightschool.sek.tree import LARGEST, Tree


def test_the_nearest_tree_is_found_from_below(plant: Plant, tmp_path: Path) -> None:
    tree = plant()
    assert Tree.find(tree.root / "wiki" / "rules").root == tree.root
    with pytest.raises(Problem, match="no SEK tree"):
        Tree.find(tmp_path)


def test_pages_are_markdown_below_wiki_without_indexes_logs_and_the_nights_patterns(plant: Plant) -> None:
    extra = (
        "wiki/rules/_index.md",
        "wiki/.hidden.md",
        "wiki/.git/x.md",
        "wiki/patterns/p.md",
        "wiki/index.md",
        "wiki/logs.md",
    )
    tree = plant(dict.fromkeys([*extra, "wiki/loose.md", "wiki/rules/deep/x.md", "wiki/rules/x.txt"], "x"))
    assert tree.pages() == [
        "wiki/loose.md",
        "wiki/references/pricing.md",
        "wiki/rules/database.md",
        "wiki/rules/deep/x.md",
        "wiki/rules/frontend.md",
        "wiki/workflows/release.md",
    ]
    assert tree.categories() == ["references", "rules", "workflows"]
    assert tree.bootstrap == tree.root / "AGENTS.md"


@pytest.mark.parametrize(
    "path",
    ["../x.md", "/etc/passwd", "wiki/../../x", "", ".", "wiki/a\nb.md", "wiki\\..\\x", "C:/x.md", "wiki/\ud800.md"],
)
def test_no_path_leads_out(plant: Plant, path: str) -> None:
    with pytest.raises(Problem, match="no path inside"):
        plant().inside(path)


def test_a_link_out_is_refused_and_is_no_page(plant: Plant, tmp_path: Path) -> None:
    tree = plant()
    (tmp_path / "secret.md").write_text("secret")
    (tree.root / "wiki/rules/out.md").symlink_to(tmp_path / "secret.md")
    (tree.root / "wiki/rules/in.md").symlink_to(tree.root / "wiki/rules/frontend.md")
    (tree.root / "wiki/away").symlink_to(tmp_path)
    with pytest.raises(Problem, match="is a link to"):
        tree.read("wiki/rules/out.md")
    assert "wiki/rules/out.md" not in tree.pages() and "wiki/rules/in.md" in tree.pages()
    assert not [page for page in tree.pages() if "away" in page]


def test_a_mark_at_the_start_is_tolerated_and_line_ends_stay(plant: Plant) -> None:
    tree = plant({"wiki/rules/x.md": b"\xef\xbb\xbf# X\r\n\r\ny\r\n"})
    assert tree.read("wiki/rules/x.md") == "# X\r\n\r\ny\r\n"


def test_what_is_no_text_or_too_large_is_named_with_its_line(plant: Plant) -> None:
    tree = plant({"wiki/rules/bad.md": b"fine\n\xff\xfe\n", "wiki/rules/huge.md": b"x" * (LARGEST + 1)})
    with pytest.raises(Problem, match=r"wiki/rules/bad\.md:2: not UTF-8"):
        tree.read("wiki/rules/bad.md")
    with pytest.raises(Problem, match=r"wiki/rules/huge\.md: larger than 5 MB"):
        tree.read("wiki/rules/huge.md")


def test_readers_see_a_pending_transaction_as_done(plant: Plant) -> None:
    new = {"wiki/rules/new.md": base64.b64encode(b"# New\n").decode(), "wiki/rules/database.md": None}
    more = {"wiki/notes/a.md": base64.b64encode(b"a").decode()}
    tree = plant({"memory/.pending.json": json.dumps({"schema": 1, "files": new | more})})
    assert tree.read("wiki/rules/new.md") == "# New\n" and tree.has("wiki/rules/new.md")
    assert "wiki/rules/new.md" in tree.pages() and "wiki/rules/database.md" not in tree.pages()
    assert "notes" in tree.categories() and not tree.has("wiki/rules/database.md")
    assert tree.stamp("wiki/rules/new.md") is None
    with pytest.raises(Problem, match="no such file"):
        tree.read("wiki/rules/database.md")


def test_a_broken_pending_file_is_an_error_not_a_guess(plant: Plant) -> None:
    with pytest.raises(Problem, match=r"\.pending\.json cannot be read"):
        plant({"memory/.pending.json": "{"}).pages()
