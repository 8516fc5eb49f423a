"""What `check_suite` finds in a suite that loads, and that it is silent about a good one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nightschool.loop.graders import parse_grader
from nightschool.loop.suite import Suite, Task
from nightschool.loop.suite_check import check_suite

WORDS = ["amber", "birch", "cedar", "dune", "ebony", "fern", "grove", "heath", "iris", "jade"]
WORDS += ["kelp", "larch", "moss", "nettle", "oak", "pine", "quince", "reed", "sage", "thyme"]
TWO = [{"kind": "contains", "text": "yes"}, {"kind": "max_chars", "limit": 9}]


def task(id: str, prompt: str, kind: str = "contains", expected: str = "yes", **more: Any) -> Task:
    return Task(id, prompt, parse_grader({"kind": kind, "expected": expected, **more}))


def suite(more: Mapping[str, Task] | None = None, *, train: int = 4, val: int = 12, test: int = 20) -> Suite:
    """Quiet tasks, as many as these, and one more where it is given."""
    splits = {
        split: [task(f"{split}-{n}", f"{split} {word}?") for n, word in enumerate(WORDS[:size])]
        for split, size in (("train", train), ("val", val), ("test", test))
    }
    for split, extra in (more or {}).items():
        splits[split].append(extra)
    tasks = {split: tuple(listed) for split, listed in splits.items()}
    return Suite("desk", "", 16, (), tasks["train"], tasks["val"], tasks["test"], folder=Path("desk"), sha="0")


def said(checked: Suite) -> list[str]:
    return [f"{finding.level}: {finding.text}" for finding in check_suite(checked)]


def test_a_good_suite_gets_one_note() -> None:
    assert said(suite()) == ["note: 12 val tasks: the smallest visible gain is 0.083"]


def test_small_splits() -> None:
    assert said(suite(train=1, val=2, test=3)) == [
        "warning: train is small: 1 task; 4 or more are better",
        "warning: val is small: 2 tasks; 12 or more are better",
        "warning: test is small: 3 tasks; 20 or more are better",
        "note: 2 val tasks: the smallest visible gain is 0.500",
    ]


def test_checks_make_smaller_gains_visible() -> None:
    checked = suite({"val": task("v", "Form?", "checks", checks=TWO)}, val=11)
    assert said(checked) == ["note: 12 val tasks: the smallest visible gain is 0.042"]


@pytest.mark.parametrize(
    ("more", "finding"),
    [
        (
            {"val": task("v", "Form?", "checks", "no", checks=TWO)},
            'error: v: the expected answer fails its own grader: must contain "yes"',
        ),
        ({"val": task("v", "Form?", "regex", pattern=".")}, 'error: v: the answer "-" passes'),
        ({"val": task("v", "Mark?", "exact", "-")}, None),
        (
            {"train": task("t", "Is it X1, or not?", expected="x1")},
            "warning: 1 task in train with the expected answer in the prompt: t",
        ),
        (
            {"val": task("v", "Do I run [mop.sh]?", expected="Mop.sh")},
            "warning: 1 task in val with the expected answer in the prompt: v",
        ),
        (
            {"train": task("t", "Is it X1-b, or not?", expected="x1")},
            "warning: 1 task in train with the expected answer in the prompt: t",
        ),
        ({"train": task("t", "Is it X1-b, or not?", "exact", "x1")}, None),
        ({"train": task("t", "A or B?", "choice", "A", options=["A", "B"])}, None),
        (
            {
                "train": task("t", "How big may an upload be today?"),
                "test": task("u", "how big may an upload be, today"),
            },
            "warning: train and test share 1 nearly equal prompts: t ~ u",
        ),
        ({"train": task("t", "How big may an upload be?"), "test": task("u", "When may an upload begin?")}, None),
    ],
)
def test_findings(more: dict[str, Task], finding: str | None) -> None:
    found = [text for text in said(suite(more)) if not text.startswith("note")]
    assert found == ([finding] if finding else [])
