"""The runbook suite: sixteen things that a team knows and no model can.

Every seed invents a project and draws its facts: ports, limits, owners, the names of branches and servers.
Nothing in a question gives its answer away, so without a skill the score is about zero, and whatever is gained
was remembered from train. Val and test ask for the same facts in other words.

It shows that experience is kept, and found again when it is needed. It does not show reasoning, nor learning
beyond what was seen: a fact missing from train cannot be known, so all three splits ask for the same facts.
"""

import random

from nightschool.loop.suites.runbook_facts import FACTS, PROJECTS, VALUES
from nightschool.loop.suites.suite_files import SuiteFiles, Task

N_FACTS = 16

TOML = """\
schema = 1
name = "runbook"
system = "You answer questions of the {project} team in a few words."
max_tokens = 16
stop = ["\\n"]

[evolve]
max_turns = 6
min_examples = 8
gate = "sure"
"""


def generate(seed: int) -> SuiteFiles:
    rng = random.Random(f"runbook {seed}")
    facts = rng.sample(FACTS, N_FACTS)
    questions = [text for fact in facts for text in (fact.train, *fact.val, *fact.test)]
    values: list[str] = []
    for fact in facts:
        values.append(_draw(rng, fact.value, apart_from=[*questions, *values]))

    train: list[Task] = []
    val: list[Task] = []
    test: list[Task] = []
    for fact, value in zip(facts, values, strict=True):
        train.append(_task(fact.id, fact.train, value))
        val.extend(_task(f"{fact.id}-v{n}", text, value) for n, text in enumerate(fact.val, 1))
        test.extend(_task(f"{fact.id}-t{n}", text, value) for n, text in enumerate(fact.test, 1))
    rng.shuffle(val)
    rng.shuffle(test)
    return SuiteFiles(TOML.format(project=rng.choice(PROJECTS)), train, val, test)


def _draw(rng: random.Random, kind: str, apart_from: list[str]) -> str:
    """A value with no text inside it, and inside no text: the grader `contains` cannot pass by accident."""
    taken = [text.casefold() for text in apart_from]
    while True:
        value = rng.choice(VALUES[kind]) if kind in VALUES else _digits(rng, kind)
        folded = value.casefold()
        if not any(folded in text or text in folded for text in taken):
            return value


def _digits(rng: random.Random, form: str) -> str:
    return "".join(rng.choice("123456789") for _ in form)


def _task(id: str, prompt: str, expected: str) -> Task:
    return {"id": id, "prompt": prompt, "grader": {"kind": "contains", "expected": expected}}
