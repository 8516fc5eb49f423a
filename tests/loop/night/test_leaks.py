"""Val and test never reach the maintainer or the proposer; the wiki never reaches the student."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nightschool.loop import skills


def secret_tasks(words: Any) -> Any:
    """Val and test whose ids, questions and answers are words of their own."""
    hidden = {
        split: [
            {
                "id": f"{split}-id-{n}",
                "prompt": f"{split}question {n} k{n}",
                "grader": {"kind": "exact", "expected": f"{split}answer{n}"},
            }
            for n in range(3)
        ]
        for split in ("val", "test")
    }
    return {**words.tasks, **hidden}


@pytest.fixture
def night(toys: Any, words: Any) -> Any:
    """A night of three iterations, one accepted, read to the last file that is offered."""
    toy = toys(secret_tasks(words))
    toy.student = lambda request: "valanswer0" if _helped(request) else "no idea"
    toy.propose = greedy(toy)
    toy.proposals += [words.made("helps", "k0"), words.made("idle", "k1"), words.made("idle", "k2")]
    toy.night(iterations=3)
    assert [event["accepted"] for event in toy.events("gate")] == [True, False, False]
    return toy


def _helped(request: Any) -> bool:
    return "# helps" in request.messages[0].content and "valquestion" in request.messages[1].content


def greedy(toy: Any) -> Any:
    """Reads whatever is offered."""

    def propose(request: Any) -> str:
        actions = request.grammar.portable.get("anyOf", [request.grammar.portable])
        paths = [schema for schema in actions if "path" in schema["properties"]]
        if paths:
            path = paths[0]["properties"]["path"]["enum"][0]
            return json.dumps({"thought": "so", "action": "read_file", "path": path}, separators=(",", ":"))
        finish = {"thought": "so", "action": "finish", "proposal": toy.proposals.popleft()}
        return json.dumps(finish, separators=(",", ":"))

    return propose


def test_no_hidden_id_question_or_answer_is_ever_shown(night: Any) -> None:
    hidden = [f"{split}{part}" for split in ("val", "test") for part in ("-id", "question", "answer")]
    shown = night.prompts("maintainer") + night.prompts("proposer")
    assert len(shown) > 20
    assert not [word for prompt in shown for word in hidden if word in prompt]


def test_no_hidden_id_is_in_a_grammar(night: Any) -> None:
    asked = [
        request for role in ("maintainer", "proposer") for engine in night.engines[role] for request in engine.prompts
    ]
    assert not [request for request in asked if "val-id" in request.grammar.lark or "test-id" in request.grammar.lark]


def test_nothing_hidden_is_in_the_wiki_or_in_skills(night: Any) -> None:
    kept = [*night.space.wiki.rglob("*.md"), *night.space.skills.rglob("*.md")]
    text = "".join(path.read_text() for path in kept)
    assert not [word for word in ("val-id", "valquestion", "test-id", "testquestion", "testanswer") if word in text]


def test_the_student_never_sees_the_wiki(toy: Any, words: Any) -> None:
    fields = {"problem": "wikiproblem", "root_cause": "wikicause", "fix": ["wikifix"]}
    toy.studies += [{"create": [words.page("house-values", "train-k0", **fields)], "log": "wikilog"}]
    toy.proposals += [words.made("helps", "k0")]
    toy.write("AGENTS.md", "wikibootstrap")
    toy.write("memory/inbox.md", "wikiinbox")
    toy.night(iterations=2)
    assert "wikiproblem" in "".join(toy.prompts("proposer"))
    assert not [prompt for prompt in toy.prompts("student") if "wiki" in prompt]


@pytest.mark.parametrize("cited", ["iter-000/val/val-id-0", "iter-001/train/../val/val-id-0", "../../train/secret"])
def test_a_page_that_cites_what_is_hidden_opens_nothing(toys: Any, words: Any, cited: str) -> None:
    toy = toys(secret_tasks(words))
    toy.night()
    (toy.space.root / "train").mkdir()
    trace = toy.space.raw / "iter-000" / "val" / "val-id-0.json"
    (toy.space.root / "train" / "secret.json").write_text(trace.read_text())
    hostile = f'---\nid: spy\nkind: failure\nscope: general\nevidence:\n  - "{cited}"\n---\n## Problem\n- spies\n'
    toy.write("wiki/patterns/spy.md", hostile)
    toy.propose = greedy(toy)
    edit = {"op": "append", "page": "spy", "content": ["more"], "evidence": ["train-k0"]}
    toy.studies += [words.study(edit)]
    toy.proposals += [words.made("helps", "k0")]
    toy.night()
    assert "valquestion" not in "".join(toy.prompts("proposer") + toy.prompts("maintainer"))
    assert "valquestion" not in toy.read("wiki/patterns/spy.md")


def test_skills_in_the_students_prompt_are_those_that_stand_or_the_candidate(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    toy.night()
    standing = skills.load(toy.space.skills).prompt
    assert {prompt.split("\n")[0] for prompt in toy.prompts("student")} == {"Answer."}
    assert sum(standing in prompt for prompt in toy.prompts("student")) == 4 + 4, "val of the candidate, and test"
