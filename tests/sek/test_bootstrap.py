"""L0: its sections are found, and only the last is edited, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.sek import bootstrap

WHOLE = bootstrap.render("I build it.", "rules", "read wiki/_routing.md", ["- [A-1] one"], name="Project")


def test_four_sections() -> None:
    sections = bootstrap.parse(WHOLE)
    assert tuple(sections) == bootstrap.SECTIONS
    assert sections["Identity"].text.strip() == "I build it."
    assert [(rule.tag, rule.text) for rule in bootstrap.critical(WHOLE)] == [("A-1", "- [A-1] one")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "## Critical Rules\n\n- [X-1] so\n"),
        ("# Mine\n", "# Mine\n\n## Critical Rules\n\n- [X-1] so\n"),
        ("## Critical Rules\n", "## Critical Rules\n\n- [X-1] so\n"),
        ("## Critical Rules\n\n- [A-1] a", "## Critical Rules\n\n- [A-1] a\n- [X-1] so\n"),
        ("## critical rules:\n- [A-1] a\n\n## Next\n", "## critical rules:\n- [A-1] a\n- [X-1] so\n\n## Next\n"),
        ("## Critical Rules\n\nWords.\n\n# Next\n", "## Critical Rules\n\nWords.\n\n- [X-1] so\n\n# Next\n"),
        ("## Critical Rules\r\n\r\n- [A-1] a\r\n", "## Critical Rules\r\n\r\n- [A-1] a\r\n- [X-1] so\r\n"),
        (
            "```\n## Critical Rules\n```\n## Critical Rules\n- a\n",
            "```\n## Critical Rules\n```\n## Critical Rules\n- a\n- [X-1] so\n",
        ),
    ],
)
def test_a_critical_rule_is_added_below_the_others(before: str, after: str) -> None:
    assert bootstrap.with_critical(before, "[X-1] so") == after
    assert "X-1" not in bootstrap.without_critical(after, "X-1")


def test_a_critical_rule_leaves_with_its_lines() -> None:
    text = "## Critical Rules\n\n- [A-1] a\n  goes on\n- [B-1] b, see [A-1]\n\n## Next\n- [A-1] not critical\n"
    assert bootstrap.without_critical(text, "A-1") == (
        "## Critical Rules\n\n- [B-1] b, see [A-1]\n\n## Next\n- [A-1] not critical\n"
    )


@settings(deadline=None)
@given(st.text("#-* \nab[]A1`", max_size=150))
def test_what_is_added_is_found_and_goes_again(text: str) -> None:
    after = bootstrap.with_critical(f"{text}\n\n## Critical Rules\n", "[X-1] so")
    assert [rule.tag for rule in bootstrap.critical(after)].count("X-1") == 1
    left = bootstrap.without_critical(after, "X-1")
    assert left.split() == f"{text}\n\n## Critical Rules\n".split()
