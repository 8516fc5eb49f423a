"""Rules in pages: found in every form that people write, and taken out without touching another line."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.sek import inbox, rules
from nightschool.sek.inbox import Entry
from nightschool.sek.tree import Tree

PAGE = """\
---
title: "[FRONT-1] no rule"
---
# [TOP-1] Payments

Never charge twice.

### Why

Retries.

## Lists

- [ITEM-1] First
  goes on

  and on
- second, see [TOP-1]
  - [ITEM-2] nested
1. **[ITEM-3]** numbered

| [ROW-1] | a row |
|---|---|
| [ROW-2] | another |

[PARA-1] A paragraph
of two lines.

> [QUOTE-1] said so

Always so [END-1].

[LINK-1](x.md) and [REF-1]: https://example.org are links.

```
- [CODE-1] no rule
```
<!--
- [GONE-1] no rule
-->
Underlined [UNDER-1]
--------------------
"""


def test_every_form_of_a_rule_is_found() -> None:
    found = {rule.tag: rule for rule in rules.find(PAGE, "p.md")}
    assert list(found) == [
        "TOP-1",
        "ITEM-1",
        "ITEM-2",
        "ITEM-3",
        "ROW-1",
        "ROW-2",
        "PARA-1",
        "QUOTE-1",
        "END-1",
        "UNDER-1",
    ]
    assert found["TOP-1"].text.startswith("# [TOP-1] Payments\n\nNever charge twice.") and found["TOP-1"].line == 4
    assert found["ITEM-1"].text == "- [ITEM-1] First\n  goes on\n\n  and on\n"
    assert found["PARA-1"].text == "[PARA-1] A paragraph\nof two lines.\n"
    assert found["END-1"].text == "Always so [END-1].\n" and not found["END-1"].leads
    assert [found[tag].title for tag in ("TOP-1", "ITEM-3", "ROW-2")] == ["Payments", "numbered", "another"]


def test_a_heading_ends_where_the_next_of_its_level_begins() -> None:
    page = "## [A-1] one\n\ntext\n\n### deeper\n\nmore\n\n## [B-1] two\n\nend\n"
    first, second = rules.find(page, "p.md")
    assert first.text == "## [A-1] one\n\ntext\n\n### deeper\n\nmore\n" and second.text == "## [B-1] two\n\nend\n"
    assert rules.removed(page, [first]) == "## [B-1] two\n\nend\n"
    assert rules.removed(page, [second]) == "## [A-1] one\n\ntext\n\n### deeper\n\nmore\n\n"


def test_a_page_without_its_last_rule_is_gone() -> None:
    page = "---\na: b\n---\n# Title\n\n- [A-1] one\n"
    assert rules.removed(page, rules.find(page, "p.md")) == ""
    kept = "# Title\n\nWords.\n\n- [A-1] one\n"
    assert rules.removed(kept, rules.find(kept, "p.md")) == "# Title\n\nWords.\n\n"


def test_what_ends_with_a_tag_is_a_mention_if_another_block_leads_with_it() -> None:
    found = [*rules.find("As told in [A-1]\n", "x.md"), *rules.find("- [A-1] told\n", "y.md")]
    assert [rule.path for rule in rules.choose(found)] == ["y.md"]


@settings(deadline=None)
@given(st.text("[]AB-1 #\n*`|", max_size=120))
def test_any_page_loses_only_its_rules(text: str) -> None:
    found = rules.find(text, "p.md")
    for rule in found:
        assert f"[{rule.tag}]" in rule.text and rule.text in text
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    left = rules.removed(text, found)
    taken = {n for rule in found for n in range(rule.start, rule.end)}
    kept = [row for n, row in enumerate(text.split("\n")) if n not in taken and row.strip()]
    assert left == "" or [row for row in left.split("\n") if row.strip()] == kept


@pytest.mark.parametrize("tag", ["", "A", "a-1", "A-", "-A", "1-A", "A--1", "A-1 B-2", f"A-{'1' * 70}"])
def test_what_is_no_tag(tag: str) -> None:
    with pytest.raises(Problem, match="is no tag"):
        rules.check_tag(tag)


def test_new_tags() -> None:
    assert rules.new_tag("the Stripe webhook retries", "RULE", {"STRIPE-WEBHOOK-001"}) == "STRIPE-WEBHOOK-002"
    assert rules.new_tag("日本語の検索", "REF", ()) == "REF-001"
    assert rules.check_tag(rules.new_tag("x" * 100 + " " + "y" * 100, "RULE", ()))


def test_alike_drafts_are_told_once() -> None:
    one = Entry("t", expected="delivered once", got="delivered twice", where="a.py")
    two = Entry("t", expected="it is delivered once", got="it was delivered twice", where="b.py")
    three = Entry("t", got="lost for good")
    block = rules.render("T-1", [one, two, three])
    assert block == (
        "## [T-1] t\n\nExpected: delivered once\nGot: delivered twice\nWhere: a.py\n\nGot: lost for good\n\n"
        "Evidence: undated\n"
    )
    (rule,) = rules.find(block, "p.md")
    assert rule.text == block


def test_unreadable_pages_have_no_rules(plant: Callable[..., Tree]) -> None:
    tree = plant({"wiki/rules/bad.md": b"- [BAD-1] \xff\n"})
    assert [rule.tag for rule in rules.every(tree)] == ["FE-001"]


def test_of_drafts_that_say_the_same_the_fullest_is_told() -> None:
    bare = "- [2026-01-01] stripe retries twice\n"
    full = "- [2026-01-02] stripe retries twice · correction · b\n  expected: once got: twice\n  where: hooks.py\n"
    for text in (bare + full, full + bare):
        rule = rules.render("PAY-1", inbox.parse(text))
        assert "Expected: once\nGot: twice\nWhere: hooks.py\n" in rule and rule.count("Got:") == 1
        assert rule.startswith("## [PAY-1] stripe retries twice\n") and "2026-01-01" in rule
