"""Rules that contradict each other, by a model's word under a grammar."""

from __future__ import annotations

import json
from collections.abc import Callable

from nightschool.engine.backends.scripted import ScriptedEngine, shortest
from nightschool.engine.types import Request
from nightschool.sek import lint
from nightschool.sek.tree import Tree

RULES = {
    "wiki/rules/a.md": "# A\n\n[RETRY-001] Retry a stripe webhook three times, because the network drops it.\n",
    "wiki/rules/b.md": "# B\n\n[RETRY-002] A stripe webhook is retried by stripe, so hang up at once.\n",
    "wiki/rules/c.md": "# C\n\n[PAINT-001] Buttons are green since the brand book says so.\n",
}


def verdict(request: Request) -> str:
    both = all(word in request.messages[-1].content for word in ("three times", "hang up"))
    reply = {"reason": "one retries, the other hangs up", "verdict": "contradict" if both else "unrelated"}
    return json.dumps(reply, separators=(",", ":"))


def test_a_contradiction_is_an_error_with_its_place_and_never_mended(plant: Callable[..., Tree]) -> None:
    tree = plant(RULES)
    engine = ScriptedEngine(default=verdict)
    (found,) = [each for each in lint.run(tree, len, engine) if each.code == "contradiction"]
    assert (found.place, found.level, found.fix) == ("wiki/rules/b.md:3", "error", None)
    assert (
        found.message == "[RETRY-002] may contradict [RETRY-001] (wiki/rules/a.md:3): one retries, the other hangs up"
    )
    assert found.why and found.advice
    assert 0 < len(engine.prompts) < 6  # near pairs only


def test_rules_that_agree_are_no_finding_and_without_a_model_none_is_asked(plant: Callable[..., Tree]) -> None:
    tree = plant(RULES)
    agreed = ScriptedEngine(default=shortest)
    assert "contradiction" not in [each.code for each in lint.run(tree, len, agreed)]
    assert "contradiction" not in [each.code for each in lint.run(tree, len)]
