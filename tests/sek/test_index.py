"""The index: a line a page, small whatever the size of the wiki, and never over what a person wrote."""

from __future__ import annotations

import re

import pytest
from tests.sek.conftest import Plant, Words

from nightschool.sek.index import MARK, MOST_TOKENS, about, is_ours, outdated, render


def test_a_small_wiki_is_a_line_a_page_by_category(plant: Plant) -> None:
    (text,) = render(plant({"wiki/loose page.md": "just words\n"}), Words().count).values()
    assert text.startswith(MARK + "\n")
    assert "- [wiki/loose page.md](loose%20page.md): just words\n" in text
    assert "## rules\n\n- [wiki/rules/database.md](rules/database.md): Migrations\n" in text


def test_a_large_wiki_is_its_categories_with_an_index_each(plant: Plant) -> None:
    tree = plant({f"wiki/rules/p{n:03}.md": f"# Rule {n}\n" for n in range(200)})
    files = render(tree, Words().count)
    assert Words().count(files["wiki/_index.md"]) <= MOST_TOKENS
    assert "- [wiki/rules/_index.md](rules/_index.md): 202 pages" in files["wiki/_index.md"]
    assert ": 1 page\n" in files["wiki/_index.md"]
    assert "- [wiki/rules/p007.md](rules/p007.md): Rule 7\n" in files["wiki/rules/_index.md"]


def test_pages_that_are_about_to_be_written_can_be_named(plant: Plant) -> None:
    text = render(plant(), Words().count, ["wiki/rules/frontend.md"])["wiki/_index.md"]
    assert re.findall(r"\]\((.+)\)", text) == ["rules/frontend.md"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Title #\nbody", "Title"),
        ("---\nname: x\n---\n\nFirst *words* here\n", "First words here"),
        ("\n\n## **Bold** `code` [link](x.md)\n", "Bold code link"),
        ("", ""),
        ("# \x1b[31mred\x07\n", "[31mred"),
        ("x" * 500, "x" * 89 + "…"),
    ],
)
def test_what_a_page_is_about(text: str, line: str) -> None:
    assert about(text) == line


def test_only_what_code_wrote_is_written_again(plant: Plant) -> None:
    tree = plant()
    assert not is_ours(tree, "wiki/_index.md") and outdated(tree, Words().count) == {}
    tree = plant({"wiki/_index.md": MARK + "\nold\n"})
    assert b"Migrations" in outdated(tree, Words().count)["wiki/_index.md"]


def test_a_page_that_cannot_be_read_says_so(plant: Plant) -> None:
    text = render(plant({"wiki/rules/bad.md": b"\xff"}), Words().count)["wiki/_index.md"]
    assert "wiki/rules/bad.md](rules/bad.md): cannot be read: not UTF-8" in text
