"""Whether a suite can show anything: findings about one that loads.

An error is a suite that cannot be graded right; a warning, a result that would mean less than it seems; a note says
what the smallest visible gain is. Whether the suite is well-formed is left to `suite_read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from nightschool.loop.answers import normalise, quoted
from nightschool.loop.graders import Choice, Contains, grade, reference, steps
from nightschool.loop.suite import SPLITS, Suite, Task

NEAR = 0.8
"""Share of common words from which two prompts are nearly the same."""
ENOUGH = {"train": 4, "val": 12, "test": 20}
"""Tasks under which a split is small."""
IDLE = ("", "-")
"""Answers that say nothing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a suite, in one line."""

    level: Literal["error", "warning", "note"]
    text: str


def check_suite(suite: Suite) -> list[Finding]:
    """All findings, errors first."""
    found = [*_graders(suite), *_sizes(suite), *_giveaways(suite), *_neighbours(suite), _resolution(suite)]
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _graders(suite: Suite) -> Iterator[Finding]:
    """A right answer must pass, and silence must not."""
    for task in suite.tasks:
        expected = reference(task.grader)
        verdict = grade(task.grader, expected)
        if verdict.score < 1:
            yield Finding("error", f"{task.id}: the expected answer fails its own grader: {verdict.reason}")
        for idle in IDLE:
            if normalise(idle) != normalise(expected) and grade(task.grader, idle).score == 1:
                yield Finding("error", f"{task.id}: the answer {quoted(idle)} passes")


def _sizes(suite: Suite) -> Iterator[Finding]:
    for split, enough in ENOUGH.items():
        count = len(suite.split(split))
        if count < enough:
            yield Finding("warning", f"{split} is small: {_tasks(count)}; {enough} or more are better")


def _giveaways(suite: Suite) -> Iterator[Finding]:
    """A prompt that holds its own answer can be passed by copying. Choices name their options, so they are left out."""
    for split in SPLITS:
        given = [task.id for task in suite.split(split) if not isinstance(task.grader, Choice) and _given(task)]
        if given:
            count = f"{_tasks(len(given))} in {split}"
            yield Finding("warning", f"{count} with the expected answer in the prompt: {_some(given)}")


def _given(task: Task) -> bool:
    """Whether the prompt holds the answer: as words, or for `contains` anywhere, as that grader looks for it."""
    expected = reference(task.grader)
    if isinstance(task.grader, Contains) and normalise(expected) in normalise(task.prompt):
        return True
    return _holds(task.prompt, expected)


def _neighbours(suite: Suite) -> Iterator[Finding]:
    """Prompts of two splits that are nearly the same: what is learned on one is known on the other."""
    for one, other in combinations(SPLITS, 2):
        pairs = _near_pairs(suite.split(one), suite.split(other))
        if pairs:
            yield Finding("warning", f"{one} and {other} share {len(pairs)} nearly equal prompts: {_some(pairs)}")


def _near_pairs(ones: Sequence[Task], others: Sequence[Task]) -> list[str]:
    words = {task.id: {token for token in _tokens(task.prompt) if token[0].isalnum()} for task in (*ones, *others)}
    return [
        f"{one.id} ~ {other.id}"
        for one in ones
        for other in others
        if words[one.id]
        and len(words[one.id] & words[other.id]) >= NEAR * len(words[one.id] | words[other.id])
        and one.files == other.files
    ]


def _resolution(suite: Suite) -> Finding:
    finest = max(steps(task.grader) for task in suite.val)
    gain = 1 / (len(suite.val) * finest)
    return Finding("note", f"{_tasks(len(suite.val), 'val ')}: the smallest visible gain is {gain:.3f}")


def _tokens(text: str) -> list[str]:
    """Words in normal form, each sign that belongs to none by itself."""
    return "".join(char if char.isalnum() or char in "-_" else f" {char} " for char in normalise(text)).split()


def _holds(text: str, part: str) -> bool:
    return f" {' '.join(_tokens(part))} " in f" {' '.join(_tokens(text))} "


def _tasks(count: int, which: str = "") -> str:
    return f"{count} {which}task{'' if count == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
