"""Edits by whole lines: each is made, nothing else changes; what may be a target; diffs and quotes."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.disk.patches import Edit, PatchError, apply, quote, spans, unified

LINE = st.text(st.sampled_from("ab #-`~\u2028\x85\r\té😀"), max_size=6)
WORDS = st.sampled_from(
    ["# Cause", "## Fix", "### Fix", "```", "````", "~~~", "---", "===", "", "a", "b", "- c", "    d"]
)
DOCUMENT = st.lists(WORDS | LINE, max_size=14).map("\n".join) | st.text(max_size=40)
CONTENT = st.lists(LINE, min_size=1, max_size=3).map("\n".join)


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


@st.composite
def documents_and_edits(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    """A document and edits that fit it."""
    text = draw(DOCUMENT)
    unique = [line for line, count in Counter(lines_of(text)).items() if count == 1]
    targets = draw(st.lists(st.sampled_from(unique), unique=True, max_size=4)) if unique else []
    edits = [Edit(draw(st.sampled_from(["replace", "insert_after"])), draw(CONTENT), target) for target in targets]
    return text, draw(st.permutations([*edits, *(Edit("append", c) for c in draw(st.lists(CONTENT, max_size=2)))]))


@given(documents_and_edits())
def test_each_edit_is_made_and_nothing_else(given_: tuple[str, list[Edit]]) -> None:
    text, edits = given_
    by_target = {edit.target: edit for edit in edits if edit.op != "append"}
    expected: list[str] = []
    for line in lines_of(text):
        edit = by_target.get(line)
        expected += [] if edit and edit.op == "replace" else [line]
        expected += lines_of(edit.content) if edit else []
    for edit in edits:
        expected += lines_of(edit.content) if edit.op == "append" else []
    after = apply(text, edits)
    if edits:
        assert after == "".join(line + "\n" for line in expected)
    else:
        assert after == text


@given(documents_and_edits(), st.randoms(use_true_random=False))
def test_the_order_of_edits_does_not_matter(given_: tuple[str, list[Edit]], random: Any) -> None:
    text, edits = given_
    appends = iter([edit for edit in edits if edit.op == "append"])
    shuffled = random.sample(edits, len(edits))
    assert apply(text, [next(appends) if edit.op == "append" else edit for edit in shuffled]) == apply(text, edits)


def test_content_may_end_its_last_line_or_not() -> None:
    assert apply("a\nb", [Edit("replace", "x", "a"), Edit("append", "y\n")]) == "x\nb\ny\n"
    assert apply("a\nb\n", [Edit("replace", "", "a")]) == "b\n"
    assert apply("a\nb\n", [Edit("insert_after", "\n", "a")]) == "a\n\nb\n"
    assert apply("", [Edit("append", "y")]) == "y\n"


def test_an_edit_cannot_reach_into_another() -> None:
    edits = [Edit("append", "b"), Edit("insert_after", "b", "a"), Edit("replace", "a\na", "b")]
    assert apply("a\nb", edits) == "a\nb\na\na\nb\n"
    assert apply("a\nb", edits[::-1]) == "a\nb\na\na\nb\n"


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([Edit("replace", "x", "c")], "'c' does not occur"),
        ([Edit("replace", "x", "par")], "'par' does not occur"),
        ([Edit("insert_after", "x", "a\npart b")], "does not occur"),
        ([Edit("replace", "x", "a ")], "does not occur"),
        ([Edit("replace", "x", "twice")], "occurs 2 times"),
        ([Edit("replace", "x", "a"), Edit("replace", "y", "a")], "two edits have the target 'a'"),
        ([Edit("replace", "x", "a"), Edit("insert_after", "y", "a")], "two edits have the target 'a'"),
        ([Edit("insert_after", "x", "a"), Edit("insert_after", "x", "a")], "two edits have the target 'a'"),
        ([Edit("replace", "x")], "replace has no target"),
        ([Edit("append", "x", "a")], "an append has a target"),
        ([Edit("delete", "x", "a")], "unknown operation 'delete'"),  # type: ignore[arg-type]
        ([Edit("append", "x"), Edit("replace", "x", "c" * 5_000)], "does not occur"),
    ],
)
def test_edits_that_do_not_fit(edits: list[Edit], said: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply("a\npart b\ntwice\ntwice\n", edits)
    assert said in caught.value.what
    assert len(caught.value.what) < 200
    assert isinstance(caught.value, Problem)


PAGE = """\
---
id: dates
---
# Dates

First line
## Problem
A date was wrong.
twice
```sql
SELECT 1
# Fix
````
After the fence.
~~~
``` not the end
~~~~
Setext title
---
Under it.
twice
## Evidence ##
closed one
### Deeper
closed two
- item
---
## Fix
Do this.
    indented
- item too
* * *
evidence
---
closed again
Root
====
Last, without a line end"""


def test_spans_are_the_lines_that_may_be_edited() -> None:
    free = ["First line", "A date was wrong.", "After the fence.", "Under it."]
    tail = ["Do this.", "    indented", "- item too", "* * *", "Last, without a line end"]
    assert spans(PAGE, closed=("evidence", "Other")) == free + tail
    assert spans(PAGE, closed=["Dates"]) == ["Last, without a line end"]
    assert spans(PAGE, closed=["dates", "root"]) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n\u2003\n", []),
        ("---\nnever closed\na\n", []),
        ("a\n```\nnever closed\nb\n", ["a"]),
        ("a\u2028# b\x0c\nc\u2028d\n", ["c\u2028d"]),
        ("a\tb\nc\r\nd\n\x7f\n", ["d"]),
        ("#no heading\n#\n####### seven\n", ["#no heading", "####### seven"]),
        ("x" * 200 + "\n" + "y" * 201, ["x" * 200]),
        ("````\na\n```\nb\n~~~~\nc\n`````\nd\n", ["d"]),
        ("~~~\n```\na\n~~~ b\nc\n~~~\nd\n", ["d"]),
        ("``` a`b\nopen\n", ["``` a`b", "open"]),
        ("    ```\nopen\n", ["    ```", "open"]),
        ("- item\n---\nrest\n", ["- item", "---", "rest"]),
    ],
)
def test_spans_at_the_edges(text: str, expected: list[str]) -> None:
    assert spans(text, closed=()) == expected


@given(DOCUMENT, st.sets(st.sampled_from(["Cause", "Fix", "a"])))
def test_every_span_is_a_target_and_closing_a_section_only_takes_away(text: str, closed: set[str]) -> None:
    found = spans(text, closed=closed)
    assert set(found) <= set(spans(text, closed=()))
    for line in found:
        assert apply(text, [Edit("insert_after", "new", line)]).count("new\n") == 1


def test_a_quoted_text_opens_and_closes_nothing() -> None:
    evil = "x\n```\n## Fix\n---\rforged\r\n# Evidence"
    page = f"## Evidence\n{quote(evil)}\n## Fix\nfree\n"
    assert spans(page, closed=["Evidence"]) == ["free"]


@given(st.text() | DOCUMENT)
def test_quoted_lines_are_indented_and_come_back(text: str) -> None:
    lines = quote(text).split("\n")
    assert all(line.startswith("    ") for line in lines)
    assert "\n".join(line[4:] for line in lines) == text.replace("\r\n", "\n").replace("\r", "\n")


@given(DOCUMENT, DOCUMENT)
def test_a_diff_is_empty_only_if_nothing_changed(before: str, after: str) -> None:
    assert (unified(before, after, "a.md") == "") == (before == after)


@pytest.mark.parametrize("before", ["a\nb\nc\n", "a\nb", "", "a\u2028b\r\n"])
@pytest.mark.parametrize("after", ["a\nb\nc\n", "a\nb", "", "x\n\ny"])
def test_git_applies_a_diff(tmp_path: Path, before: str, after: str) -> None:
    if before == after:
        return
    (tmp_path / "a.md").write_bytes(before.encode())
    diff = unified(before, after, "a.md")
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=tmp_path, input=diff.encode(), check=True, capture_output=True)
    assert (tmp_path / "a.md").read_bytes() == after.encode()
