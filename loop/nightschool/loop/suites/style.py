"""The style suite: house rules of form that nobody states.

Every seed draws two to four rules, at most one for each place in an answer (body, opening, tag, closing), so
they always fit together: `NOTE: <<White>> OVER`. The questions are trivial and the system prompt is silent;
only the graders' reasons and the expected answers show the rules. Train shares no question and no answer with
val or test, and there an answer that repeats one of train passes no check.

It shows what transfers: nothing can be remembered, so what is gained on test was learned as a form. It does
not show that the answers are right (only their form is graded), nor that a model learns when to do what.
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
stop = ["\\n"]

[evolve]
max_turns = 6
min_examples = 8
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One house rule: how it dresses an answer, and how to see that it was kept. Prose never keeps one."""

    reason: str
    dress: Callable[[str], str]
    pattern: str


def _wrapping(left: str, right: str) -> Rule:
    return Rule(
        reason=f"the answer must be between {left} and {right}",
        dress=lambda text: f"{left}{text}{right}",
        pattern=rf"{re.escape(left)}\s*\w.*{re.escape(right)}",
    )


def _opening(mark: str) -> Rule:
    return Rule(f"must start with {mark}", lambda text: f"{mark} {text}", rf"^\s*{re.escape(mark)}")


def _tag(mark: str) -> Rule:
    return Rule(f"must contain the tag {mark}", lambda text: f"{text} {mark}", re.escape(mark))


def _closing(word: str) -> Rule:
    return Rule(f"must end with the word {word}", lambda text: f"{text} {word}", rf"\b{word}\W*$")


# In the order in which they dress an answer. Marks are such as prose does not have: no bold type, no bare "over".
PLACES: dict[str, list[Rule]] = {
    "body": [_wrapping(*pair) for pair in (("<<", ">>"), ("[[", "]]"), ("((", "))"), ("{{", "}}"), ("|", "|"))],
    "opening": [_opening(mark) for mark in ("NOTE:", "REPLY:", "FACT:", "DESK:", "-", "=>", "#")],
    "tag": [_tag(mark) for mark in ("[OPS]", "[FAQ]", "[HQ]", "(LOG)", "~KB~", "@HOME")],
    "closing": [_closing(word) for word in ("OVER", "DONE", "ROGER", "STOP", "AMEN", "THANKS")],
}


def generate(seed: int) -> SuiteFiles:
    rng = random.Random(f"style {seed}")
    places = rng.sample(list(PLACES), rng.randint(2, 4))
    rules = [rng.choice(PLACES[place]) for place in PLACES if place in places]
    asked = rng.sample(QUESTIONS, N_TRAIN + N_VAL + N_TEST)
    seen = [answer for _, answer in asked[:N_TRAIN]]
    tasks = [
        _task(f"q{n:02}", question, answer, rules, parroted=seen if n > N_TRAIN else [])
        for n, (question, answer) in enumerate(asked, 1)
    ]
    train, rest = tasks[:N_TRAIN], tasks[N_TRAIN:]
    return SuiteFiles(TOML, train, val=rest[:N_VAL], test=rest[N_VAL:])


def _task(id: str, question: str, answer: str, rules: list[Rule], parroted: list[str]) -> Task:
    checks = [{"kind": "regex", "pattern": _unless(parroted, rule.pattern), "reason": rule.reason} for rule in rules]
    for rule in rules:
        answer = rule.dress(answer)
    return {"id": id, "prompt": question, "grader": {"kind": "checks", "expected": answer, "checks": checks}}


def _unless(words: list[str], pattern: str) -> str:
    """The pattern, in a text without those words: an answer copied whole from train has learned no form."""
    if not words:
        return pattern
    return rf"\A(?!(?s:.*)\b(?i:{'|'.join(words)})\b)(?s:.*?)(?:{pattern})"
