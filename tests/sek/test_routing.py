"""The routing table: strict reading, lines in errors, and edits that leave every other byte alone."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.sek.routing import Routing, Trigger, parse, rendered, with_trigger, without_page

SEED = """\
triggers:
  - id: frontend
    keywords: [react, frontend, ui, component, tsx, jsx]
    load:
      - wiki/design/design-system.md
  - id: llm-cost
    keywords: [pricing, calc_cost, tariff, cost]
    load:
      - wiki/references/llm-pricing.md
"""
NEW = Trigger("new", ("a b", "no", "日本"), ("wiki/rules/x.md",), by="night")


def test_the_table_of_the_idea_is_read_as_it_stands() -> None:
    routing = parse(SEED)
    first = Trigger(
        "frontend", ("react", "frontend", "ui", "component", "tsx", "jsx"), ("wiki/design/design-system.md",), line=2
    )
    assert routing.triggers[0] == first
    assert (routing.l0_budget, routing.budget, routing.expire_days, routing.bootstrap) == (400, 1500, 14, "AGENTS.md")


def test_a_table_may_be_the_one_fenced_block_of_a_page_and_lines_count_from_its_top() -> None:
    page = f"# Routing\r\n\r\n```yaml\r\n{SEED}```\r\nprose: x\r\n"
    assert [trigger.line for trigger in parse(page).triggers] == [5, 9]
    with pytest.raises(Problem, match=r"_routing\.md:5: unknown key 'ids'"):
        parse("# R\n\n```yaml\ntriggers:\n  - ids: x\n```\n")
    with pytest.raises(Problem, match=r":8: a second yaml block"):
        parse("```yaml\ntriggers: []\n```\n\nx\n\n\n```yaml\n```\n")


def test_scalars_are_words_whatever_yaml_would_make_of_them() -> None:
    trigger = parse(
        "triggers: [{id: 1.0, keywords: [no, 007, on], load: [wiki/a.md], priority: -2, always: true}]"
    ).triggers[0]
    assert (trigger.id, trigger.keywords, trigger.priority, trigger.always) == ("1.0", ("no", "007", "on"), -2, True)


@pytest.mark.parametrize(
    "text", ["triggers: [{id: always, load: [a.md]}]", "triggers: [{id: x, keywords: [always], load: [a.md]}]"]
)
def test_the_word_always_makes_a_trigger_of_every_prompt(text: str) -> None:
    assert parse(text).triggers[0].always


@pytest.mark.parametrize("text", ["", "# nothing\n", "triggers:\n", "triggers: []\n", "\ufefftriggers: []\r\n"])
def test_an_empty_table_has_no_triggers(text: str) -> None:
    assert parse(text) == Routing()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("triggers:\n  - id: a\n   b: [", 3, "broken YAML"),
        ("triggers:\n\t- id: a\n", 2, "broken YAML"),
        ("trigers: []\n", 1, "unknown key 'trigers'"),
        ("budget: 1\nbudget: 2\n", 2, "given twice"),
        ("budget: many\n", 1, "no number"),
        ("l0_budget: 0\n", 1, "no number"),
        ("- a\n", 1, "is a list"),
        ("triggers: x\n", 1, "not a list"),
        ("triggers:\n  - x\n", 2, "a trigger is a single value"),
        ("triggers:\n  - keywords: [a]\n    load: [b.md]\n", 2, "without 'id'"),
        ("triggers:\n  - id: a\n    keywords: [a]\n", 2, "without 'load'"),
        ("triggers:\n  - id: a\n    keywords: [a]\n    load: []\n", 4, "loads nothing"),
        ("triggers:\n  - id: a\n    keywords: []\n    load: [b.md]\n", 3, "no keywords"),
        ("triggers:\n  - id: a\n    keywords: [x, '']\n    load: [b.md]\n", 3, "is empty"),
        ("triggers:\n  - id: a\n    keywords: [x, ~]\n    load: [b.md]\n", 3, "is empty"),
        ("triggers:\n  - id: a\n    keywords: ['--']\n    load: [b.md]\n", 3, "no letter or digit"),
        ("triggers:\n  - id: a\n    keywords: [[x]]\n    load: [b.md]\n", 3, "not a word"),
        ("triggers:\n  - id: a/b\n    keywords: [x]\n    load: [b.md]\n", 2, "is no id"),
        ("triggers:\n  - id: a\n    keywords: [x]\n    load: [../b.md]\n", 4, "out of the tree"),
        ("triggers:\n  - id: a\n    keywords: [x]\n    load: [/b.md]\n", 4, "out of the tree"),
        ('triggers:\n  - id: a\n    keywords: [x]\n    load: ["b\\n.md"]\n', 4, "control character"),
        (
            "triggers:\n  - {id: a, keywords: [x], load: [b.md]}\n  - {id: a, keywords: [y], load: [b.md]}\n",
            3,
            "at line 2",
        ),
        ("triggers:\n  - {id: a, keywords: [x], load: [b.md], always: maybe}\n", 2, "'maybe'"),
    ],
)
def test_bad_tables_name_their_line(text: str, line: int, what: str) -> None:
    with pytest.raises(Problem, match=rf"wiki/_routing\.md:{line}: ") as caught:
        parse(text)
    assert what in caught.value.what and caught.value.advice


def test_the_nearest_known_key_is_named() -> None:
    with pytest.raises(Problem) as caught:
        parse("triggers: [{id: a, keyword: [x], load: [b.md]}]")
    assert caught.value.advice == "did you mean 'keywords'?"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# c",
        "triggers:\n",
        "triggers: []\n",
        "triggers: [] # none\nbudget: 3\n",
        "triggers: [{id: a, keywords: [b], load: [wiki/a.md]}]",
        SEED + "\n# tail\nbudget: 10\n",
        f"hi\r\n```yaml\r\n{SEED}# c\n```\r\nbye\r\n".replace("\r\n", "\n").replace("\n", "\r\n"),
        "triggers:\n- id: fe\n  keywords:\n  - 'react'\n  load:\n  - wiki/a.md",
    ],
)
def test_a_trigger_is_put_in_replaced_and_taken_out_and_the_rest_stays(text: str) -> None:
    added = with_trigger(text, NEW)
    assert replace(parse(added).triggers[-1], line=0) == NEW
    assert [t.id for t in parse(added).triggers[:-1]] == [t.id for t in parse(text).triggers]
    changed = with_trigger(added, replace(NEW, keywords=("z",), priority=3))
    assert parse(changed).triggers[-1].keywords == ("z",)
    gone = without_page(changed, "wiki/rules/x.md")
    assert [t.id for t in parse(gone).triggers] == [t.id for t in parse(text).triggers]
    for line in text.splitlines():
        if "triggers:" not in line:
            assert line in gone.splitlines()
    assert (("\r\n" in gone) == ("\r\n" in text) and "\n" not in gone.replace("\r\n", "")) or "\r\n" not in text


def test_a_page_leaves_every_load_and_an_empty_trigger_goes() -> None:
    text = """\
triggers:
  - id: a  # first
    keywords: [x]
    load: [wiki/one.md, wiki/two.md]
  - id: b
    keywords: [y]
    load:
      - wiki/./one.md   # the old one
      - wiki/three.md
  # about c
  - id: c
    keywords: [z]
    load: [wiki/one.md]
"""
    gone = without_page(text, "wiki/one.md")
    assert [(t.id, t.load) for t in parse(gone).triggers] == [("a", ("wiki/two.md",)), ("b", ("wiki/three.md",))]
    assert "# first" in gone and "# about c" in gone
    assert without_page(gone, "wiki/none.md") == gone


NAMES = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
WORDS = st.text(string.ascii_letters + "日本éß #:'\"[]{},-&*!|>%@`?", min_size=1, max_size=12).filter(
    lambda word: any(char.isalnum() for char in word)
)
TRIGGERS = st.builds(
    Trigger,
    NAMES,
    st.lists(WORDS.map(str.strip), min_size=1, max_size=4).map(tuple),
    st.lists(NAMES.map("wiki/rules/{}.md".format), min_size=1, max_size=3, unique=True).map(tuple),
    st.integers(-9, 9),
    st.none() | NAMES,
)
TABLES = st.lists(TRIGGERS, max_size=5, unique_by=lambda trigger: trigger.id)


@given(TABLES, TRIGGERS)
def test_what_is_written_is_read_again(table: list[Trigger], more: Trigger) -> None:
    text = rendered(Routing(tuple(table)))
    assert [replace(t, line=0, always=False) for t in parse(text).triggers] == table
    edited = with_trigger(text, more)
    assert replace(next(t for t in parse(edited).triggers if t.id == more.id), line=0, always=False) == more
    without = without_page(edited, more.load[0])
    assert all(more.load[0] not in trigger.load for trigger in parse(without).triggers)


@given(st.text(max_size=200))
def test_any_text_is_a_table_or_a_problem(text: str) -> None:
    try:
        parse(text)
    except Problem as problem:
        assert problem.what.startswith("wiki/_routing.md")
