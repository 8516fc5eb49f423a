"""Graders: what passes, what the reason says, and that no answer can break or hold up one."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.loop import patterns
from nightschool.loop.answers import normalise
from nightschool.loop.graders import MAX_ANSWER, Grade, dump_grader, grade, parse_grader, reference, steps

LETTERS = {"kind": "choice", "options": ["A", "B", "C"], "expected": "B"}
VERDICTS = {"kind": "choice", "options": ["approved", "not approved"], "expected": "approved"}
ADDRESS = {"kind": "json", "expected": {"host": "falcon", "ports": [80, 443]}}
FORM = {"kind": "json", "expected": {"n": 1}, "schema": {"type": "object", "required": ["n"]}}
HOUSE = {
    "kind": "checks",
    "expected": "## Risks\nNone. [OPS]",
    "checks": [
        {"kind": "section", "title": "Risks"},
        {"kind": "regex", "pattern": r"\[OPS\]$", "reason": "must end with the tag [OPS]"},
        {"kind": "absent", "text": "sorry"},
        {"kind": "max_chars", "limit": 40},
    ],
}
GRADERS: list[dict[str, Any]] = [
    {"kind": "exact", "expected": "harbor"},
    {"kind": "contains", "expected": "7443"},
    {"kind": "number", "expected": 7443},
    {"kind": "number", "expected": -0.5, "tolerance": 0.25},
    {"kind": "regex", "pattern": r"(?i)\bE417\b", "expected": "E417"},
    LETTERS,
    VERDICTS,
    ADDRESS,
    FORM,
    {"kind": "json", "expected": [1, 2], "ordered": True},
    HOUSE,
]
by_kind = pytest.mark.parametrize("data", GRADERS, ids=lambda data: data["kind"])


def score(data: object, answer: str) -> float:
    return grade(parse_grader(data), answer).score


def reason(data: object, answer: str) -> str:
    verdict = grade(parse_grader(data), answer)
    assert verdict.score < 1
    return verdict.reason


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"kind": "exact", "expected": "Straße 5"}, "  STRASSE\n５ "),
        ({"kind": "contains", "expected": "file name"}, "The ﬁle\u00a0\nNAME is x"),
        ({"kind": "number", "expected": 7443}, "From 1999 on it is port 7,443."),
        ({"kind": "number", "expected": 12.5}, "It costs $12.50, as E417 and H2O say."),
        ({"kind": "number", "expected": -3}, "The answer is −3"),
        ({"kind": "number", "expected": 42}, "答案是42个"),
        ({"kind": "number", "expected": 12}, "The flat has 12 m2"),
        ({"kind": "number", "expected": 5}, "3-5"),
        ({"kind": "number", "expected": 0.5}, ".5"),
        ({"kind": "number", "expected": 1, "tolerance": 0.1}, "1.1"),
        ({"kind": "number", "expected": 10**40 + 1}, str(10**40 + 1)),
        ({"kind": "number", "expected": 10**400}, str(10**400)),
        (LETTERS, "(B)"),
        (LETTERS, "b."),
        (LETTERS, "A server needs a lock, so the answer is B."),
        (LETTERS, "答案是B"),
        (VERDICTS, "APPROVED!"),
        (ADDRESS, '```json\n{"ports": [443, 80.0], "host": "falcon"}\n```'),
        (FORM, '{"n": 7, "more": []}'),
        (HOUSE, "# risks:\nMany.\n# End\n[OPS]"),
    ],
)
def test_passes(data: object, answer: str) -> None:
    assert grade(parse_grader(data), answer) == Grade(1.0, "as expected")


@pytest.mark.parametrize(
    ("data", "answer", "said"),
    [
        ({"kind": "exact", "expected": "7443"}, "8080", 'expected "7443"; got "8080"'),
        ({"kind": "exact", "expected": "7443"}, " \n", "the answer is empty"),
        ({"kind": "exact", "expected": "7443"}, "\u00a0\u3000", "the answer is empty"),
        (
            {"kind": "contains", "expected": "7443"},
            "It is\n80\x1b[0m.",
            'expected "7443"; got "It is 80�[0m."',
        ),
        ({"kind": "contains", "expected": "7"}, "x" * 200, f'expected "7"; got "{"x" * 79}…"'),
        ({"kind": "number", "expected": 7443}, "port 80", 'expected "7443"; got "80"'),
        ({"kind": "number", "expected": 1, "tolerance": 0.5}, "2", 'expected "1" within 0.5; got "2"'),
        ({"kind": "number", "expected": 1}, "E417", 'expected the number "1"; found none in "E417"'),
        (
            {"kind": "regex", "pattern": "^ok", "expected": "ok"},
            "no",
            'expected something like "ok"; got "no"',
        ),
        (LETTERS, "B or C", 'expected "B"; got "C"'),
        (LETTERS, "Basic", 'expected "B"; the answer names none of "A", "B", "C"'),
        (VERDICTS, "not approved", 'expected "approved"; got "not approved"'),
        (ADDRESS, "falcon", 'expected JSON; got "falcon"'),
        (ADDRESS, '{"ports": [80], "x": NaN}', 'expected JSON; got "{"ports": [80], "x": NaN}"'),
        (
            ADDRESS,
            '{"ports": [80], "x": 1}',
            '"host" is missing; "x" should not be there; "ports" should be "[80, 443]", not "[80]"',
        ),
        ({"kind": "json", "expected": [1, 2], "ordered": True}, "[2, 1]", 'expected "[1, 2]"; got "[2, 1]"'),
        ({"kind": "json", "expected": 1}, "true", 'expected "1"; got "true"'),
        (FORM, "{}", "'n' is a required property"),
        (HOUSE, "## Risks\n\n## End\n[OPS]", 'the section "Risks" is empty'),
        (
            HOUSE,
            "Sorry, " + "no" * 20,
            'must have a section "Risks"; must end with the tag [OPS]; must not contain "sorry"; '
            "must have at most 40 characters, not 47",
        ),
    ],
)
def test_fails_with_a_reason(data: object, answer: str, said: str) -> None:
    assert reason(data, answer) == said


def test_checks_score_the_share_that_pass() -> None:
    assert score(HOUSE, "## Risks\nMany") == 0.75
    assert score(HOUSE, "sorry") == 0.25
    assert steps(parse_grader(HOUSE)) == 4


@by_kind
def test_expected_answer_passes_and_is_what_an_example_shows(data: dict[str, Any]) -> None:
    grader = parse_grader(data)
    assert grade(grader, reference(grader)).score == 1
    expected = data["expected"]
    assert reference(grader) == (json.dumps(expected) if data["kind"] == "json" else str(expected))


@by_kind
def test_round_trip_through_json(data: dict[str, Any]) -> None:
    grader = parse_grader(data)
    dumped = json.loads(json.dumps(dump_grader(grader)))
    assert dumped == data
    assert parse_grader(dumped) == grader


@by_kind
@given(answer=st.text(st.characters()) | st.text('0123456789.,-+eE"{}[]: \n#ABC'))
@example(answer="1e999999999999999999999")
@example(answer="9" * 5000)
@example(answer="[" * 5000)
@example(answer="[" * 300 + "]" * 300)
@example(answer='{"a":' * 400 + "1" + "}" * 400)
@example(answer="\ud800")
@example(answer="#" * MAX_ANSWER)
@example(answer="1,111" * 4000)
def test_any_text_is_an_answer(data: dict[str, Any], answer: str) -> None:
    verdict = grade(parse_grader(data), answer)
    assert 0 <= verdict.score <= 1
    assert len(verdict.reason.splitlines()) == 1
    verdict.reason.encode()


@by_kind
def test_a_flood_scores_nothing(data: dict[str, Any]) -> None:
    assert reason(data, "B" * (MAX_ANSWER + 1)) == "the answer is longer than 20,000 characters"


@given(st.text())
def test_normal_form_is_stable(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize("pattern", [r"(x+x+)+y", r"(?:x?){90}x{90}y", r"(.*.*)*\1y"])
def test_a_hostile_pattern_ends(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.1)
    assert score({"kind": "regex", "pattern": pattern, "expected": "xxy"}, "x" * 900) == 0


@pytest.mark.parametrize(
    ("data", "what", "advice"),
    [
        ({"kind": "contain", "expected": "x"}, "unknown grader.kind 'contain'", "did you mean 'contains'?"),
        ({"expected": "x"}, "grader.kind is missing", "add it; docs/suites.md shows the format"),
        ({"kind": "exact", "expcted": "x"}, "unknown key 'expcted' in grader", "did you mean 'expected'?"),
        ({"kind": "exact"}, "grader.expected is missing", "add it; docs/suites.md shows the format"),
        ({"kind": "exact", "expected": " "}, "grader.expected: is blank", None),
        ({"kind": "exact", "expected": 7}, "grader.expected: should be a valid string, not 7", None),
        ({"kind": "number", "expected": "7"}, "grader.expected: must be a finite number, not '7'", None),
        (
            {"kind": "regex", "pattern": "x"},
            "grader.expected is missing",
            "add it; docs/suites.md shows the format",
        ),
        (
            {"kind": "regex", "pattern": "(", "expected": "x"},
            "grader.pattern: the pattern does not compile: missing ) at position 1",
            None,
        ),
        (
            {"kind": "regex", "pattern": "((a{1000}){1000}){1000}", "expected": "x"},
            "grader.pattern: the pattern repeats something more than 10,000 times",
            None,
        ),
        (
            {"kind": "regex", "pattern": "a" * 1001, "expected": "x"},
            "grader.pattern: the pattern is longer than 1,000 characters",
            None,
        ),
        (LETTERS | {"expected": "D"}, "grader: expected 'D' is not one of the options", None),
        (LETTERS | {"options": ["B", "b"]}, "grader: two options are equal", None),
        (
            FORM | {"expected": {}},
            "grader: expected does not fit the schema: 'n' is a required property",
            None,
        ),
        (
            FORM | {"schema": {"type": "objekt"}},
            "grader.schema: not a JSON Schema: 'objekt' is not valid under any of the given schemas",
            None,
        ),
        (
            FORM | {"schema": {"$ref": "https://example.org/x"}},
            "grader.schema: the schema refers to 'https://example.org/x', outside itself",
            None,
        ),
        (
            FORM | {"schema": {"properties": {"n": {"pattern": "(x+x+)+y"}}}},
            "grader.schema: the schema uses 'pattern'; a regex grader can do that",
            None,
        ),
        (
            HOUSE | {"checks": [{"kind": "sektion", "title": "x"}]},
            "unknown grader.checks[0].kind 'sektion'",
            "did you mean 'section'?",
        ),
        (
            HOUSE | {"checks": [{"kind": "absent", "txt": "x"}]},
            "unknown key 'txt' in grader.checks[0]",
            "did you mean 'text'?",
        ),
        (
            HOUSE | {"checks": [{"kind": "absent", "text": "x", "reason": "a\nb"}]},
            "grader.checks[0].reason: must be one line",
            None,
        ),
    ],
)
def test_a_bad_grader_is_two_lines(data: object, what: str, advice: str | None) -> None:
    with pytest.raises(Problem) as caught:
        parse_grader(data, "train.jsonl:3")
    assert str(caught.value).splitlines() == [
        f"train.jsonl:3: {what}",
        advice or "correct it; docs/suites.md shows the format",
    ]


def test_a_schema_may_name_a_property_pattern() -> None:
    schema = {"type": "object", "properties": {"pattern": {"type": "string"}}}
    assert score({"kind": "json", "expected": {"pattern": "x"}, "schema": schema}, '{"pattern": 1}') == 0


def test_a_schema_with_a_dangling_reference_is_refused() -> None:
    with pytest.raises(Problem, match="which it does not hold"):
        parse_grader(FORM | {"schema": {"$ref": "#/$defs/none"}})
