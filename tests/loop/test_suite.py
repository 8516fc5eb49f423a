"""Suites: what loads, the two lines for each thing that is wrong, what check says, and how folders are made."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.loop.graders import parse_grader, reference
from nightschool.loop.suite import Task, load_suite, materialise, shuffled
from nightschool.loop.suite_check import check_suite
from nightschool.loop.suites import generated

TOML = 'schema = 1\nname = "desk"\nsystem = "Be brief."\n\n[evolve]\nfail = 4\npass = 2\n'
ADD, CORRECT = "add it; docs/suites.md shows the format", "correct it; docs/suites.md shows the format"
BELOW = "give its path below files/, such as 'data.csv'"
OWN_ID = "give every task its own id; upper and lower case are the same"
NO_SUITE = "a suite is a folder with suite.toml, train.jsonl, val.jsonl and test.jsonl"
EDITS = dict[str, str | bytes]


def line(id: str, prompt: str, expected: str = "x1", **more: Any) -> str:
    record = {"id": id, "prompt": prompt, "grader": {"kind": "contains", "expected": expected}, **more}
    return json.dumps(record, ensure_ascii=False) + "\n"


GOOD: EDITS = {
    "suite.toml": TOML,
    "train.jsonl": line("a", "Which port?", "7443") + line("b", "Who owns it?", "Runa"),
    "val.jsonl": line("a-v", "What is the port?", "7443"),
    "test.jsonl": line("a-t", "Port?", "7443", files=["log/app.txt"]),
    "files/log/app.txt": "port 7443\n",
}


def write(folder: Path, edits: EDITS) -> Path:
    for name, text in (GOOD | edits).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def two_lines(problem: Problem) -> list[str]:
    lines = str(problem).splitlines()
    assert len(lines) == 2
    return lines


def test_a_good_suite(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path, {}))
    assert (suite.name, suite.system, suite.max_tokens, suite.stop) == ("desk", "Be brief.", 256, ())
    assert suite.settings == {"fail": 4, "passing": 2}
    assert [task.id for task in suite.tasks] == ["a", "b", "a-v", "a-t"]
    assert suite.test[0] == Task(
        "a-t", "Port?", parse_grader({"kind": "contains", "expected": "7443"}), ("log/app.txt",)
    )


def test_the_hash_covers_all_that_was_read(tmp_path: Path) -> None:
    first = load_suite(write(tmp_path / "one", {})).sha
    assert load_suite(write(tmp_path / "same", {})).sha == first
    for name, text in GOOD.items():
        assert isinstance(text, str)
        assert load_suite(write(tmp_path / name / "other", {name: text + "\n"})).sha != first


@pytest.mark.parametrize(
    ("edits", "what", "advice"),
    [
        (
            {"train.jsonl": line("a", "x") + "x"},
            "train.jsonl:2: not JSON: Expecting value at column 1",
            "mend or remove that line",
        ),
        ({"val.jsonl": "[1]\n"}, "val.jsonl:1: not a JSON object", 'write one object a line, as in {"id": "a"}'),
        ({"val.jsonl": b"\n\xff\n"}, "val.jsonl:2: not UTF-8", "save the file as UTF-8"),
        ({"val.jsonl": line("x", "y").replace('"prompt": "y", ', "")}, "val.jsonl:1: prompt is missing", ADD),
        ({"val.jsonl": '{"id": "x", "prompt": "y"}'}, "val.jsonl:1: grader is missing", ADD),
        ({"val.jsonl": line("x", " ")}, "val.jsonl:1: prompt: is blank", CORRECT),
        (
            {"val.jsonl": line("a b", "x")},
            "val.jsonl:1: id: String should match pattern '^[A-Za-z0-9._-]{1,64}$', not 'a b'",
            CORRECT,
        ),
        ({"val.jsonl": line("x", "y", promt="z")}, "val.jsonl:1: unknown key 'promt'", "did you mean 'prompt'?"),
        (
            {"val.jsonl": line("x", "y").replace("contains", "contain")},
            "val.jsonl:1: unknown grader.kind 'contain'",
            "did you mean 'contains'?",
        ),
        (
            {"val.jsonl": line("x", "y").replace("expected", "expcted")},
            "val.jsonl:1: unknown key 'expcted' in grader",
            "did you mean 'expected'?",
        ),
        (
            {"train.jsonl": line("a", "x") + "\n" + line("A", "y")},
            "train.jsonl:3: the id 'A' is taken by train.jsonl:1",
            OWN_ID,
        ),
        ({"test.jsonl": line("b", "y")}, "test.jsonl:1: the id 'b' is taken by train.jsonl:2", OWN_ID),
        (
            {"test.jsonl": line("z", " who OWNS\u00a0it?")},
            "test.jsonl:1: the prompt is that of train.jsonl:2",
            "keep a task in one split only",
        ),
        ({"val.jsonl": ""}, "val.jsonl:1: the split is empty", "write one task a line"),
        (
            {"test.jsonl": line("z", "y", files=["../suite.toml"])},
            "test.jsonl:1: the file '../suite.toml' leaves the suite",
            BELOW,
        ),
        (
            {"test.jsonl": line("z", "y", files=["log/../../x"])},
            "test.jsonl:1: the file 'log/../../x' leaves the suite",
            BELOW,
        ),
        (
            {"test.jsonl": line("z", "y", files=["/etc/passwd"])},
            "test.jsonl:1: the file '/etc/passwd' leaves the suite",
            BELOW,
        ),
        ({"test.jsonl": line("z", "y", files=["C:\\x"])}, "test.jsonl:1: the file 'C:\\\\x' leaves the suite", BELOW),
        (
            {"test.jsonl": line("z", "y", files=["log"])},
            "test.jsonl:1: no file 'log' in files/",
            "add the file, or take it off the list",
        ),
        (
            {"test.jsonl": line("z", "y", answer={"type": "string"})},
            "test.jsonl:1: answer: #: a string without a bound",
            "add maxLength",
        ),
        (
            {"test.jsonl": line("z", "y", answer={"type": "string", "maxLength": "x"})},
            "test.jsonl:1: answer: not a JSON Schema: 'x' is not of type 'integer'",
            CORRECT,
        ),
        (
            {"test.jsonl": line("z", "y", answer={"enum": []})},
            "test.jsonl:1: answer: nothing satisfies this grammar: an enum that it needs is empty",
            CORRECT,
        ),
        ({"suite.toml": TOML + "fial = 2\n"}, "suite.toml:8: unknown key 'fial' in evolve", "did you mean 'fail'?"),
        (
            {"suite.toml": "max_token = 2\n" + TOML},
            "suite.toml:1: unknown key 'max_token'",
            "did you mean 'max_tokens'?",
        ),
        (
            {"suite.toml": TOML.replace("1", "2", 1)},
            "suite.toml:1: suite schema 2; this version reads 1",
            "update nightschool",
        ),
        ({"suite.toml": TOML.replace("schema = 1", "")}, "suite.toml:1: schema is missing", ADD),
        ({"suite.toml": TOML.replace('"desk"', "desk")}, "suite.toml:2: not TOML: Invalid value", "mend that line"),
        (
            {"suite.toml": TOML + "x = ["},
            "suite.toml:8: not TOML: Invalid value (at end of document)",
            "mend that line",
        ),
        (
            {"suite.toml": TOML + "iterations = 0\n"},
            "suite.toml:8: evolve.iterations: should be greater than or equal to 1, not 0",
            CORRECT,
        ),
        ({"suite.toml": TOML + "think = 1\n"}, "suite.toml:8: evolve.think: should be a valid boolean, not 1", CORRECT),
        (
            {"suite.toml": TOML + 'gate = "strikt"\n'},
            "suite.toml:8: unknown gate 'strikt' in evolve.gate",
            "did you mean 'strict'?",
        ),
        ({"suite.toml": b"schema = 1\n\xff"}, "suite.toml:2: not UTF-8", "save the file as UTF-8"),
    ],
)
def test_bad_input_is_two_lines(edits: EDITS, what: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        load_suite(write(tmp_path, edits))
    assert two_lines(caught.value) == [f"{tmp_path}/{what}", advice]


@pytest.mark.parametrize("name", ["suite.toml", "train.jsonl", "val.jsonl", "test.jsonl"])
def test_a_missing_file(name: str, tmp_path: Path) -> None:
    (write(tmp_path, {}) / name).unlink()
    with pytest.raises(Problem) as caught:
        load_suite(tmp_path)
    assert two_lines(caught.value) == [f"{tmp_path}: no {name}", NO_SUITE]


@pytest.mark.parametrize(
    ("link", "what"),
    [
        ("val.jsonl", "val.jsonl:1: the file is a symbolic link"),
        ("files/log/app.txt", "test.jsonl:1: the file 'log/app.txt' is a symbolic link"),
        ("files/log", "test.jsonl:1: the file 'log/app.txt' is a symbolic link"),
        ("files", "test.jsonl:1: the file 'log/app.txt' is a symbolic link"),
    ],
)
def test_a_link_leaves_the_suite(link: str, what: str, tmp_path: Path) -> None:
    path = write(tmp_path / "suite", {}) / link
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(Problem) as caught:
        load_suite(tmp_path / "suite")
    assert two_lines(caught.value) == [f"{tmp_path}/suite/{what}", "copy the file itself into the suite"]


def test_one_prompt_about_two_files_is_two_tasks(tmp_path: Path) -> None:
    edits: EDITS = {"val.jsonl": line("v", "Port?"), "files/other.txt": "x"}
    assert load_suite(write(tmp_path, edits)).val[0].prompt == "Port?"


# The shuffled control.


@given(answers=st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=30), seed=st.integers(0, 99))
def test_shuffled_moves_every_grader(answers: list[str], seed: int) -> None:
    tasks = [
        Task(f"t{n}", f"q{n}", parse_grader({"kind": "contains", "expected": answer}))
        for n, answer in enumerate(answers)
    ]
    if len(set(answers)) == 1:
        with pytest.raises(Problem, match="cannot be shuffled"):
            shuffled(tasks, seed)
        return
    mixed = shuffled(tasks, seed)
    assert shuffled(tasks, seed) == mixed
    assert [(task.id, task.prompt) for task in mixed] == [(task.id, task.prompt) for task in tasks]
    assert sorted(reference(task.grader) for task in mixed) == sorted(answers)
    assert all(new.grader is not old.grader for new, old in zip(mixed, tasks, strict=True))
    if max(map(answers.count, answers)) * 2 <= len(answers):
        assert all(new.grader != old.grader for new, old in zip(mixed, tasks, strict=True))


# Making folders.


@pytest.mark.parametrize("source", ["runbook", "style:7"])
def test_generated_suites_are_whole(source: str, tmp_path: Path) -> None:
    suite = materialise(source, tmp_path / "deep" / "suite")
    assert suite.name == source.partition(":")[0]
    assert [finding for finding in check_suite(suite) if finding.level == "error"] == []
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["suite"]
    again = materialise(source, tmp_path / "again")
    assert again.sha == suite.sha


def test_a_bare_name_is_seed_0(tmp_path: Path) -> None:
    shas = [materialise(source, tmp_path / str(n)).sha for n, source in enumerate(("style", "style:0", "style:1"))]
    assert shas[0] == shas[1] != shas[2]


def test_a_copy_holds_what_was_read_and_nothing_else(tmp_path: Path) -> None:
    original = write(tmp_path / "original", {"notes.md": "mine", "files/unused.txt": "x"})
    copy = materialise(original, tmp_path / "copy")
    assert copy.sha == load_suite(original).sha
    names = [str(path.relative_to(copy.folder)) for path in copy.folder.rglob("*") if path.is_file()]
    assert sorted(names) == sorted(GOOD)


@pytest.mark.parametrize(
    ("source", "what", "advice"),
    [
        ("runbok", "unknown suite 'runbok'", "did you mean 'runbook'? (a folder of your own: ./runbok)"),
        ("style:x", "style:x: the seed 'x' is no whole number", "write style:7, for example"),
        ("./none", "none: no suite.toml", NO_SUITE),
    ],
)
def test_a_source_that_is_none(source: str, what: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        materialise(source, tmp_path / "suite")
    assert two_lines(caught.value) == [what, advice]
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over(tmp_path: Path) -> None:
    taken = write(tmp_path / "taken", {})
    before = load_suite(taken).sha
    with pytest.raises(Problem) as caught:
        materialise("style", taken)
    assert two_lines(caught.value) == [f"{taken} exists and is not empty", "choose another folder"]
    assert load_suite(taken).sha == before


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: Callable[[int], generated.SuiteFiles] = lambda seed: generated.SuiteFiles(TOML, [], [], [])  # noqa: E731
    monkeypatch.setattr(generated, "GENERATORS", {"broken": broken}, raising=False)
    with pytest.raises(Problem, match="the split is empty"):
        materialise("broken", tmp_path / "suite")
    assert list(tmp_path.iterdir()) == []
