"""The style suite: house rules of form that are never told, only marked.

Every seed draws two to four rules, at most one for each place in an answer (opening, body, tag, closing), so they
always fit together: `NOTE: <<White>> over`. The questions are trivial and the system prompt is silent about the rules; only the
graders' reasons and the expected answers show them. No question or answer of train returns in val or test.

It shows what transfers: what is gained on test was learned as a form, since there is nothing to remember. It does not show
that answers are right (only their form is graded), nor that a model can be taught what to do when.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from nightschool.loop.suites.style_questions import QUESTIONS
from nightschool.loop.suites.suite_files import SuiteFiles, Task

N_TRAIN, N_VAL, N_TEST = 16, 16, 24

TOML = """\
schema = 1
name = "style"
system = "You answer everyday questions for the people of the house."
max_tokens = 24
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One house rule: how it dresses an answer, and how to see that it was kept. Prose keeps none by accident."""

    reason: str
    dress: Callable[[str], str]
    pattern: str


def _opening(mark: str) -> Rule:
    return Rule(f"must start with {mark}", lambda text: f"{mark} {text}", rf"^\s*{re.escape(mark)}")


def _wrapping(left: str, right: str) -> Rule:
    pattern = rf"{re.escape(left)}\s*\w.*{re.escape(right)}"
    return Rule(f"the answer must be between {left} and {right}", lambda text: f"{left}{text}{right}", pattern)


def _tag(mark: str) -> Rule:
    return Rule(f"must contain the tag {mark}", lambda text: f"{text} {mark}", re.escape(mark))


def _closing(word: str) -> Rule:
    return Rule(f"must end with the word {word}", lambda text: f"{text} {word}", rf"\b{word}\W*$")


CAPITALS = Rule("must be in capital letters", str.upper, r"^(?=.*[A-Z]{2})[^a-z]*$")

# In the order in which they dress an answer. Marks are in capitals themselves, so CAPITALS goes with all of them.
PLACES: dict[str, tuple[Rule, ...]] = {
    "body": (CAPITALS, _wrapping("<<", ">>"), _wrapping("[[", "]]"), _wrapping("((", "))"), _wrapping("**", "**")),
    "opening": tuple(map(_opening, ("NOTE:", "REPLY:", "FACT:", "DESK:", "-", "=>", "#"))),
    "tag": tuple(map(_tag, ("[OPS]", "[FAQ]", "[HQ]", "(LOG)", "{KB}", "@HOME"))),
    "closing": tuple(map(_closing, ("OVER", "DONE", "ROGER", "STOP", "AMEN", "THANKS"))),
}


def generate(seed: int) -> SuiteFiles:
    rng = random.Random(f"style {seed}")
    rules = _draw(rng)
    asked = rng.sample(QUESTIONS, N_TRAIN + N_VAL + N_TEST)
    tasks = [_task(f"q{n:02}", question, answer, rules) for n, (question, answer) in enumerate(asked, 1)]
    return SuiteFiles(
        toml=TOML, train=tasks[:N_TRAIN], val=tasks[N_TRAIN : N_TRAIN + N_VAL], test=tasks[N_TRAIN + N_VAL :]
    )


def _draw(rng: random.Random) -> list[Rule]:
    places = rng.sample(list(PLACES), rng.randint(2, 4))
    return [rng.choice(rules) for place, rules in PLACES.items() if place in places]


def _task(id: str, question: str, answer: str, rules: list[Rule]) -> Task:
    expected = answer
    for rule in rules:
        expected = rule.dress(expected)
    checks = [{"kind": "regex", "pattern": rule.pattern, "reason": rule.reason} for rule in rules]
    return {
        "id": id,
        "prompt": question,
        "grader": {"kind": "checks", "expected": expected, "checks": checks},
    }
