"""Markdown in blocks: nothing is lost, and what belongs together stays together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.sek.blocks import Block, blocks, inside, items, lines

PIECES = [
    *("# Title", "## `Code` title ##", "Title\n===", "=== tool rules ===", "text", "**Label:**", "a: b", "---", "***"),
    *("- one\n- two\n  - nested\n", "1. first\n2. second", "| a | b |\n|---|---|\n| 1 | 2 |", "> quoted\n> more"),
    *("```\n# no heading\n```", "```python\nx = 1", "~~~\n```\n~~~", "````\n```\nin\n```\n````", "    # indented"),
    *("<rules>\n\n# In\n\n- x\n\n</rules>", "<rules>", "</rules>", "<br>", "<!-- a\n\nb -->", "[a]: http://x"),
    *("日本語の段落。", "\t- tab", "- [ ] task", "\u2028odd\x0bline\x0c", "\\# escaped", "", "", " "),
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=12),
    st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", "\r"]),
    st.booleans(),
)
def test_nothing_is_lost(pieces: list[str], end: str, mark: bool) -> None:
    text = ("\ufeff" if mark else "") + end.join(pieces)
    found = blocks(text)
    assert "".join(block.text for block in found) == text
    assert [line for block in found for line in range(block.start, block.end + 1)] == [*range(1, len(lines(text)) + 1)]
    for block in found:
        if block.kind == "list":
            assert "".join(item.text for item in items(block)) == block.text
        if block.kind == "tag":
            opening, between, closing = inside(block)
            assert opening + "".join(part.text for part in between) + closing == block.text


@given(st.text(max_size=200))
def test_any_text_is_some_blocks(text: str) -> None:
    assert "".join(block.text for block in blocks(text)) == text


def kinds(text: str) -> list[str]:
    return [block.kind for block in blocks(text) if block.kind != "blank"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n\n```sh\n# no\n```\n", ["heading", "fence"]),
        ("---\nname: x\n---\n# A\n", ["front", "heading"]),
        ("\ufeff---\r\nname: x\r\n---\r\n# A\r\n", ["front", "heading"]),
        ("---\nno key here\n---\n", ["rule", "heading"]),
        ("---\nname: never closed\n\n# A\n", ["rule", "paragraph", "heading"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\ntext", ["table", "paragraph"]),
        ("- a\n\n  ```\n  # no\n  ```\n- b\n", ["list"]),
        ("<rules>\n\n## In\n\n</rules>\nafter", ["tag", "paragraph"]),
        ("<a>\n\n<a>\n\n</a>\n\nx\n\n</a>\n", ["tag"]),
        ("```\n</a>\n```\n", ["fence"]),
        ("<a>\n\n```\n</a>\n```\n\nno end", ["html", "fence", "paragraph"]),
        ("<br>\n\ntext\n\n</br>", ["html", "paragraph", "html"]),
        ("=== foundation rules ===\n\n# A", ["heading", "heading"]),
        ("<rules>\n=== foundation ===\n\n</rules>\n", ["tag"]),
        ("[a]: http://example.com\n\ntext", ["other", "paragraph"]),
        ("Title\n=====\n", ["heading"]),
    ],
)
def test_kinds(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_a_heading_knows_level_and_title() -> None:
    found = [
        block for block in blocks("## 🚀 Go `fast` ##\n\n=== x rules ===\n\nUnder\n---\n") if block.kind == "heading"
    ]
    assert [(block.level, block.title) for block in found] == [(2, "🚀 Go `fast`"), (0, "x rules"), (2, "Under")]


def test_a_fence_that_shows_a_fence_is_one() -> None:
    text = "```\nprompt\n```bash\n# no\n```\nmore\n```\n\n## Next\n"
    assert kinds(text) == ["fence", "heading"]


def test_a_torn_fence_does_not_swallow_the_file() -> None:
    found = blocks("text\n\n```sh\nmake\n# comment\n\n## Next\n\nmore\n")
    assert [(block.kind, block.torn) for block in found if block.kind != "blank"] == [
        ("paragraph", False),
        ("fence", True),
        ("heading", False),
        ("paragraph", False),
    ]


def test_a_comment_in_a_torn_fence_is_no_heading() -> None:
    assert kinds("```\n# a\nb\n# c\nd\n") == ["fence"]


def test_a_tag_block_is_taken_apart() -> None:
    block = blocks("<r a='1'>\n=== x ===\n\n# T\n\n</r>\n\n")[0]
    opening, between, closing = inside(block)
    assert (opening, closing.strip()) == ("<r a='1'>\n", "</r>")
    assert [(part.kind, part.start) for part in between if part.kind != "blank"] == [("heading", 2), ("heading", 4)]


def test_many_tag_blocks_are_read_in_time() -> None:
    text = "<t>\n\n# x\n\n</t>\n\n" * 400
    assert sum(isinstance(block, Block) and block.kind == "tag" for block in blocks(text)) == 400
