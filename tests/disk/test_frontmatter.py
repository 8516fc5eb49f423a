"""Front matter: any value comes back, any parser reads it, and what is wrong is said with its line."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.disk.frontmatter import join, split

HOSTILE = ["---", "\n---\n", "a: b", '"', "\\", "#", "- x", "yes", "007", "~", "|", "&a", "*a", "!t"]
HOSTILE += ["😀", "\u2028", "\ufeff", "\x85", "\r\n", "\t", " "]
TEXT = st.text(st.characters()) | st.lists(st.sampled_from(HOSTILE) | st.text(max_size=3), max_size=6).map("".join)
KEYS = st.text(st.characters(), max_size=20) | st.sampled_from(HOSTILE)
SCALARS = TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(front=st.dictionaries(KEYS, VALUES, max_size=4), body=TEXT)
@example(front={"a": [{"b": [[], {}, [[1, "x"]]]}, {}]}, body="---\n")
def test_everything_comes_back(front: dict[str, Any], body: str) -> None:
    assert split(join(front, body)) == (front, body)


@given(
    front=st.dictionaries(KEYS, TEXT | st.dictionaries(KEYS, TEXT, min_size=1), min_size=1, max_size=4),
    body=TEXT,
)
def test_strict_parsers_see_the_same(front: dict[str, Any], body: str) -> None:
    text = join(front, body)
    before, matter, after = text.split("---", 2)  # wherever it stands, as some of them do
    assert (before, after) == ("", "\n" + body)
    assert yaml.safe_load(matter) == front
    assert matter.splitlines() == matter.split("\n")[:-1]


def test_what_is_written_reads_well() -> None:
    front = {"name": "sql-dates", "description": "Dates: how?", "metadata": {"on": "yes", "val": "0.5"}}
    triggers = [{"id": "x", "load": ["a/b.md", "c"]}, {"id": "z", "size": 1e16}]
    assert join({**front, "triggers": triggers}, "# Body\n") == (
        "---\nname: sql-dates\n"
        'description: "Dates: how?"\n'
        'metadata:\n  "on": "yes"\n  val: "0.5"\n'
        "triggers:\n  - id: x\n    load:\n      - a/b.md\n      - c\n  - id: z\n    size: 1.0e+16\n"
        "---\n# Body\n"
    )


def test_what_people_write_is_read_as_they_mean_it() -> None:
    source = "since: 2026-01-31\nat: 12:30\nzip: 007\nyes: no\n404: ~\nhex: 0x1f\nx: [1, -2.5, 1e3, true]\n"
    source += "none:\nt: |\n  a\n  ---\n"
    assert split(f"\ufeff---  \r\n{source}---\r\nbody\r\n") == (
        {
            "since": "2026-01-31",
            "at": "12:30",
            "zip": "007",
            "yes": "no",
            "404": None,
            "hex": "0x1f",
            "x": [1, -2.5, 1000.0, True],
            "none": None,
            "t": "a\n---\n",
        },
        "body\r\n",
    )


@pytest.mark.parametrize("text", ["", "body", "\n---\na: b\n---\n", "----\n---\n", " ---\na: b\n---\n", "---x"])
def test_a_text_without_front_matter_is_all_body(text: str) -> None:
    assert split(text) == ({}, text)


@pytest.mark.parametrize("text", ["---\n---\nbody", "---\n# a comment\n---\nbody"])
def test_empty_front_matter(text: str) -> None:
    assert split(text) == ({}, "body")


@pytest.mark.parametrize(
    ("source", "where", "said"),
    [
        ("a: 1\nb: [", 4, "expected"),
        ("a: 1\nb: c: d", 3, "mapping values are not allowed"),
        ("a: 1\na: 2", 3, "the key 'a' is given twice"),
        ("a:\n  b: 1\n  b: 2", 4, "the key 'b' is given twice"),
        ("a: 1\n? [x]\n: 2", 3, "a key must be text"),
        ("a: &x 1\nb: *x", 2, "anchors and tags"),
        ("a: 1\nb: *x", 3, "anchors and tags"),
        ("a: !!python/object:os.system x", 2, "anchors and tags"),
        ("a: !!set {x}", 2, "anchors and tags"),
        ("a: 1\nb: \x07", 3, "U+0007"),
        ("- a", 2, "not a list of `key: value` lines"),
        ("text", 2, "not a list of `key: value` lines"),
        ("a: 1\n--- \nb", 3, None),
    ],
)
def test_what_is_wrong_is_said_with_its_line(source: str, where: int, said: str | None) -> None:
    text = f"---\n{source}\n---\nbody\n"
    if said is None:
        assert split(text)[0] == {"a": 1}
        return
    with pytest.raises(Problem) as caught:
        split(text, "wiki/x.md")
    assert caught.value.what.startswith(f"wiki/x.md:{where}: ")
    assert said in caught.value.what
    assert "\n" not in caught.value.what + caught.value.advice


@pytest.mark.parametrize("source", ["a: " + "[" * 1_000, "a: " + "9" * 5_000])
def test_what_would_break_the_parser_is_a_problem_too(source: str) -> None:
    with pytest.raises(Problem):
        split(f"---\n{source}\n---\n")


def test_front_matter_without_an_end() -> None:
    with pytest.raises(Problem, match=r"front matter:1: .* no end"):
        split("---\na: b\n")


@pytest.mark.parametrize("front", [{"k" * 101: 1}, {1: 2}, {"a": float("nan")}, {"a": {2: 3}}])
def test_what_yaml_cannot_hold_is_not_written(front: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a key must|no finite"):
        join(front, "")


@given(text=st.text(st.sampled_from("-:\n #[]{}'\"&*!|>%@`a1\t\r,?~")))
def test_any_text_is_split_or_a_problem(text: str) -> None:
    try:
        front, body = split(f"---\n{text}")
    except Problem:
        return
    assert split(join(front, body)) == (front, body)
