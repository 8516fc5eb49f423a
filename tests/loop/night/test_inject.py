"""Which skills a student reads, and the wiki that it may look into on the test split alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.engine.types import Message, Request
from nightschool.loop import inject, student
from nightschool.loop.meter import Meter
from nightschool.loop.report import status
from nightschool.loop.skills import SkillSet, load
from nightschool.loop.suite import load_suite
from nightschool.loop.wiki import Page, Wiki

PAGE = """\
---
id: {name}
kind: failure
scope: general
evidence: []
first_seen: 1
last_seen: 1
---
# {name}

## Problem
- {text}
"""


@pytest.fixture
def skilled(toy: Any, words: Any) -> Any:
    """A workspace with one skill for each of two keys."""
    toy.write("skills/first/SKILL.md", words.by_hand("first", "k1"))
    toy.write("skills/second/SKILL.md", words.by_hand("second", "k2"))
    return toy


def letters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def systems(toy: Any) -> dict[str, str]:
    """The system prompt that each question was asked with."""
    asked = [request for engine in toy.engines["student"] for request in engine.prompts]
    return {request.messages[-1].content.split("\n")[0]: request.messages[0].content for request in asked}


def test_in_full_every_task_reads_every_skill(skilled: Any) -> None:
    skilled.night()
    assert all("v-k1" in text and "v-k2" in text for text in systems(skilled).values())


def test_routed_a_task_reads_what_speaks_of_it(skilled: Any) -> None:
    skilled.night(inject="routed")
    asked = systems(skilled)
    assert "v-k1" in asked["Say now k1"] and "v-k2" not in asked["Say now k1"]
    assert "v-k2" in asked["Say now k2"] and "v-k1" not in asked["Say now k2"]


def test_status_tells_the_tokens_of_a_task(skilled: Any) -> None:
    skilled.night()
    full = status(skilled.space)["injected"]
    skilled.night(inject="routed")
    routed = status(skilled.space)["injected"]
    assert 0 < routed < full


def test_another_way_to_inject_makes_a_new_baseline(skilled: Any) -> None:
    skilled.night()
    skilled.night(inject="routed")
    assert len([event for event in skilled.events("val") if event["k"] in (0, 2)]) == 2


def test_an_unknown_way_is_refused_with_the_nearest(skilled: Any) -> None:
    with pytest.raises(Problem, match="did you mean 'routed'"):
        skilled.night(inject="route")


def test_a_skill_is_not_routed_by_when_not_to_apply(skilled: Any, words: Any) -> None:
    text = words.by_hand("first", "k1").replace("## Examples", "## When NOT to Apply\n- Zebra stables.\n\n## Examples")
    skilled.write("skills/first/SKILL.md", text)
    skills = load(skilled.space.skills)
    assert not inject.chosen(skills, "zebra stables", "routed")
    assert inject.chosen(skills, "zebra stables", "full") == skills
    assert inject.chosen(SkillSet(), "anything", "routed") == SkillSet()


def test_skills_that_fit_only_when_routed_are_no_reason_to_refuse(skilled: Any) -> None:
    suite, skills = load_suite(skilled.space.suite), load(skilled.space.skills)
    asked = student.opening(suite, inject.chosen(skills, suite.test[1].prompt, "routed"), suite.test[1])
    meter = Meter(letters, letters(asked) + suite.max_tokens)
    with pytest.raises(Problem, match="the longest part is the skills"):
        student.refuse_long(suite, skills, suite.test, meter)
    student.refuse_long(suite, skills, suite.test[1:2], meter, how="routed")


def test_the_wiki_is_offered_on_the_test_split_alone(toy: Any) -> None:
    toy.write("wiki/patterns/k3-values.md", PAGE.format(name="k3-values", text="Of k3 the value is v-k3."))
    seen: list[str] = []

    def looks(request: Request) -> str:
        asked = request.messages[1].content
        if "Wiki pages:" not in asked:
            return "no idea"
        if request.messages[-1].content != asked:
            seen.append(request.messages[-1].content)
            return json.dumps({"thought": "so", "action": "answer", "answer": "v-k3"}, separators=(",", ":"))
        return json.dumps({"thought": "look", "action": "wiki", "page": "k3-values"}, separators=(",", ":"))

    toy.student = looks
    toy.night(test_wiki=True)
    offered = [text.split("\n")[0] for text in systems(toy) if "Wiki" in text]
    asked = [prompt for prompt in toy.prompts("student") if "Wiki pages:\nk3-values" in prompt]
    assert offered == [] and asked and all("Say now" in prompt for prompt in asked)
    assert any("What is" in prompt for prompt in toy.prompts("student"))
    assert seen and all("Of k3 the value is v-k3." in text for text in seen)
    assert toy.events("result")[-1]["first"] == 0.25


def test_without_the_flag_nobody_sees_the_wiki(toy: Any) -> None:
    toy.write("wiki/patterns/k3-values.md", PAGE.format(name="k3-values", text="Of k3 the value is v-k3."))
    toy.night()
    assert not [prompt for prompt in toy.prompts("student") if "k3-values" in prompt]


def test_what_is_offered_fits_the_task() -> None:
    names = {"parsing-dates": "Dates are parsed day first.", "sql-joins": "Join on the key, never on names."}
    pages = Wiki(tuple(Page(name, PAGE.format(name=name, text=text)) for name, text in names.items()))
    assert [page.id for page in inject.offered(pages, "which join is right?")] == ["sql-joins"]
    assert inject.offered(Wiki(), "which join is right?") == ()
