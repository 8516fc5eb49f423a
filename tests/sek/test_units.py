"""Texts in units and chunks: no character is lost, what is quoted stands where it says, budgets hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nightschool.sek.units import LONGEST, MOST, Unit, chunks, units

MARKDOWN = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "",
                "  ",
                "# Title",
                "## Fees",
                "- item",
                "  - nested",
                "~~~",
                "```py",
                "| a | b |",
                "---",
                "> said",
                "<a>",
            ]
        ),
        st.text(st.characters(exclude_characters="\r", codec="utf-8"), max_size=40),
        st.integers(1, 1200).map(lambda n: ("word " * n)[:n]),
    ),
    max_size=30,
).map("\n".join)


def words(found: Sequence[Unit]) -> int:
    return sum(len(unit.quote.split()) for unit in found)


@settings(deadline=None)
@given(MARKDOWN)
@example("\n\n# A\n\n\n")
@example("x" * 2000)
def test_no_character_is_lost(text: str) -> None:
    found = units(text)
    assert "".join(unit.text for unit in found) == text
    assert [unit.start for unit in found] == [sum(len(u.text) for u in found[:n]) for n in range(len(found))]


@settings(deadline=None)
@given(MARKDOWN)
def test_a_quote_stands_in_the_lines_that_it_names_and_is_short(text: str) -> None:
    rows = text.split("\n")
    for unit in units(text):
        assert len(unit.quote) <= LONGEST
        assert unit.quote in "\n".join(rows[unit.first - 1 : unit.last])
        assert unit.quote or not text.strip()


@settings(deadline=None)
@given(MARKDOWN, st.integers(60, 400))
def test_chunks_hold_every_unit_once_and_keep_the_budget(text: str, wanted: int) -> None:
    found = units(text)
    made = list(chunks(found, words, wanted, most=LONGEST))
    assert [unit for chunk in made for unit in chunk] == found
    assert all(len(chunk) == 1 or (words(chunk) <= wanted and len(chunk) <= MOST) for chunk in made)


def test_a_unit_that_fits_nowhere_is_named_by_its_line() -> None:
    with pytest.raises(ValueError, match="line 3 alone is too long"):
        list(chunks(units("a\n\n" + "b " * 30), words, 10, 20))


def test_a_heading_goes_with_what_is_below_it_and_begins_a_chunk() -> None:
    text = "one\n\ntwo\n\nthree\n\n## Fees\n\nfour\n\nfive\n\nsix\n"
    found = units(text)
    assert [unit.quote for unit in found] == ["one", "two", "three", "## Fees\n\nfour", "five", "six"]
    first = next(chunks(found, words, 7, 100))
    assert [unit.quote for unit in first] == ["one", "two", "three"]
    assert (found[3].first, found[3].last) == (7, 9)
