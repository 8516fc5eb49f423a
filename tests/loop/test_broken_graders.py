"""What a session that was paid to break the graders found: no answer ends a night, and no word is found inside another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop.graders import grade, parse_grader
from nightschool.loop.suite import load_suite


@pytest.mark.parametrize(
    ("schema", "expected", "answer"),
    [
        ({"type": "number", "multipleOf": 0.01}, 1.5, "1e400"),
        ({"type": "number", "multipleOf": 0.01}, 1.5, "-1e400"),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}, '{"\\ud800": "x"}'),
        ({"enum": ["a"]}, "a", '"\\udfff"'),
        ({"$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, None, "1"),
    ],
)
def test_an_odd_answer_under_a_schema_scores_nothing_and_its_reason_can_be_written(
    schema: Any, expected: Any, answer: str
) -> None:
    verdict = grade(parse_grader({"kind": "json", "schema": schema, "expected": expected}), answer)
    assert verdict.score == 0
    assert verdict.reason.encode()


def test_a_schema_that_refers_to_itself_without_an_end_is_a_problem() -> None:
    with pytest.raises(Problem, match="without an end"):
        parse_grader({"kind": "json", "schema": {"$ref": "#"}, "expected": 1})


@pytest.mark.parametrize(
    ("options", "answer", "named"),
    [
        (("да", "нет"), "Нет, не всегда и никогда", "нет"),
        (("ναι", "όχι"), "Όχι, είναι ψέμα", "όχι"),
        (("on", "off"), "off, de toute façon", "off"),
        (("no", "yes"), "yes, dueño", "yes"),
        (("A", "B"), "B. ÀA", "B"),
        (("A", "B"), "答案是B", "B"),
        (("예", "아니오"), "답은 예입니다", "예"),
        (("aa", "b"), "b aaa aa", "aa"),
        (("C++", "C"), "I choose C++", "C++"),
    ],
)
def test_an_option_inside_another_word_is_not_named(options: tuple[str, ...], answer: str, named: str) -> None:
    for option in options:
        grader = parse_grader({"kind": "choice", "options": list(options), "expected": option})
        assert grade(grader, answer).score == (option == named)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "suite.toml").write_bytes(b'\xef\xbb\xbfschema = 1\nname = "toy"\nmax_tokens = 8\n')
    for split in ("train", "val", "test"):
        line = f'{{"id": "{split}", "prompt": "{split}?", "grader": {{"kind": "exact", "expected": "x"}}}}\n'
        (tmp_path / f"{split}.jsonl").write_text(line)
    return tmp_path


def test_a_byte_order_mark_is_no_fault(suite: Path) -> None:
    assert load_suite(suite).name == "toy"


def test_a_number_of_too_many_digits_is_a_problem(suite: Path) -> None:
    (suite / "suite.toml").write_text(f'schema = 1\nname = "toy"\nmax_tokens = {"9" * 5000}\n')
    with pytest.raises(Problem, match="not TOML"):
        load_suite(suite)
