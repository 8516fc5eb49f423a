"""Of a failed answer a grader tells what holds for other answers too; a trace keeps it, on disk as well."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightschool.loop import traces
from nightschool.loop.graders import Grade, grade, parse_grader
from nightschool.loop.traces import Trace

CHECKS: dict[str, tuple[dict[str, Any], str, str]] = {
    "contains": ({"kind": "contains", "text": "[OPS]"}, "no", 'must contain "[OPS]"'),
    "absent": ({"kind": "absent", "text": "sorry"}, "so sorry", 'must not contain "sorry"'),
    "regex": ({"kind": "regex", "pattern": "^A"}, "no", 'must match "^A"'),
    "max_chars": ({"kind": "max_chars", "limit": 5}, "much too long", "must have at most 5 characters"),
    "section": ({"kind": "section", "title": "Status"}, "no", 'must have a section "Status"'),
    "empty section": ({"kind": "section", "title": "Status"}, "## Status\n", 'must have a section "Status"'),
}


def graded(check: dict[str, Any], answer: str) -> Grade:
    return grade(parse_grader({"kind": "checks", "checks": [check], "expected": "A [OPS]"}), answer)


@pytest.mark.parametrize("name", CHECKS)
def test_a_failed_check_is_a_rule(name: str) -> None:
    check, answer, rule = CHECKS[name]
    assert graded(check, answer).rules == (rule,)
    assert graded({**check, "reason": "expected: form; always"}, answer).rules == ("expected: form; always",)


def test_a_rule_tells_of_no_one_answer() -> None:
    check, _, _ = CHECKS["max_chars"]
    one, other = graded(check, "much too long"), graded(check, "even longer than that")
    assert one.reason != other.reason
    assert one.rules == other.rules


@pytest.mark.parametrize(
    "grader",
    [
        {"kind": "exact", "expected": "x"},
        {"kind": "contains", "expected": "x"},
        {"kind": "number", "expected": 4},
        {"kind": "regex", "pattern": "^x$", "expected": "x"},
        {"kind": "choice", "options": ["x", "y"], "expected": "x"},
        {"kind": "json", "expected": {"a": 1}},
        {"kind": "checks", "checks": [CHECKS["contains"][0]], "expected": "[OPS]"},
    ],
)
@pytest.mark.parametrize("answer", ["", "no", "no; y; 5", "a" * 30_000])
def test_one_answer_gives_no_rule_but_where_a_check_failed(grader: dict[str, Any], answer: str) -> None:
    checked = grader["kind"] == "checks" and answer in ("no", "no; y; 5")
    assert bool(grade(parse_grader(grader), answer).rules) == checked


def test_keys_of_json_are_a_form() -> None:
    grader = parse_grader({"kind": "json", "expected": {"port": 1, "host": "a"}})
    found = grade(grader, '{"port": 2, "more": 1}')
    assert found.rules == ('"host" is missing', '"more" should not be there')
    assert '"port" should be "1", not "2"' in found.reason


def test_a_trace_keeps_its_rules_and_an_older_one_has_none(tmp_path: Path) -> None:
    trace = Trace("iter-001/train/t", "t", "p", 0, (), (), "a", "e", 0.0, "r", "stop", {}, 1, "scripted", "0")
    trace = replace(trace, rules=("must end", "b"))
    traces.write(tmp_path, trace)
    assert traces.read(tmp_path, trace.id) == trace
    path = traces.path_of(tmp_path, trace.id)
    older = json.loads(path.read_text())
    del older["rules"]
    path.write_text(json.dumps(older))
    assert traces.read(tmp_path, trace.id) == replace(trace, rules=())
