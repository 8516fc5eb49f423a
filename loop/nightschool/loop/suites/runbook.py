"""The runbook suite: sixteen things that a team knows and no model can.

Every seed invents a project and draws its facts: ports, owners, limits, names, dates. Nothing in the questions or in the
model's training gives an answer away, so without a skill the score is zero, and what is gained was remembered from
train. Val and test ask for the same facts in other words.

It shows that experience is kept and used where it fits. It does not show that a model can reason, nor that it learns
from facts it has never seen: a fact missing from train cannot be known, which is why all three splits ask for all.
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
"""


def generate(seed: int) -> SuiteFiles:
    rng = random.Random(f"runbook {seed}")
    facts = rng.sample(FACTS, N_FACTS)
    project = rng.choice(PROJECTS)
    said = [text for fact in facts for text in (fact.train, fact.val, *fact.test)]
    values: list[str] = []
    for fact in facts:
        values.append(_draw(fact.value, rng, apart_from=[*said, *values]))
    asked = list(zip(facts, values, strict=True))
    return SuiteFiles(
        toml=TOML.format(project=project),
        train=[_task(fact.id, fact.train, value) for fact, value in asked],
        val=_shuffled(rng, [_task(f"{fact.id}-v", fact.val, value) for fact, value in asked]),
        test=_shuffled(
            rng,
            [_task(f"{fact.id}-t{n}", text, value) for fact, value in asked for n, text in enumerate(fact.test, 1)],
        ),
    )


def _draw(kind: str, rng: random.Random, apart_from: list[str]) -> str:
    """A value that neither contains nor is contained in anything said so far: `contains` can then not pass by accident."""
    others = [text.casefold() for text in apart_from]
    while True:
        value = rng.choice(VALUES[kind]) if kind in VALUES else _filled(kind, rng)
        folded = value.casefold()
        if not any(folded in other or other in folded for other in others):
            return value


def _filled(form: str, rng: random.Random) -> str:
    """ "E999" -> "E417", "AAA" -> "QXV"."""
    symbols = {"9": "123456789", "A": "BCDFGHJKLMNPQRSTVWXZ"}
    return "".join(rng.choice(symbols.get(char, char)) for char in form)


def _task(id: str, prompt: str, expected: str) -> Task:
    return {"id": id, "prompt": prompt, "grader": {"kind": "contains", "expected": expected}}


def _shuffled(rng: random.Random, tasks: list[Task]) -> list[Task]:
    return rng.sample(tasks, len(tasks))
