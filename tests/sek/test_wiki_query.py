"""Questions to the wiki: what the model is shown, what it may say, and where the answer stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.grammar import accepts
from nightschool.engine.types import Completion, Request
from nightschool.sek.query import Citation, query, reply_grammar, routed
from nightschool.sek.router import Router
from nightschool.sek.tree import Tree

Plant = Callable[..., Tree]
QUESTION = "how long does an alembic lock last?"
INGESTED = """\
---
summary: "Locks."
source: raw/sources/db.0123456789ab.md
---
# Locks

- The model says that an alembic lock lasts a year.

~~~ quote 4-4
An alembic lock lasts ten seconds.
~~~

- And a claim more.

~~~~ quote 7-8
~~~
An alembic lock is a row.
~~~~

Written by a person: lock rows are in db.
"""


def found(*passages: str, answer: str = "Ten seconds.") -> str:
    return json.dumps({"found": True, "passages": passages, "answer": answer}, separators=(",", ":"))


def pages(tree: Tree, question: str = QUESTION) -> list[str]:
    return routed(Router.load(tree).route(question))


def test_an_answer_cites_the_line_that_it_stands_on(plant: Plant) -> None:
    tree = plant()
    engine = ScriptedEngine([lambda request: found("p1")])
    answer = query(tree, QUESTION, pages(tree), 500, engine)
    assert answer.text == "Ten seconds."
    text = "# Migrations Run alembic before the server starts; a lock lasts ten seconds."
    assert answer.citations == (Citation("wiki/rules/database.md", 1, text, None),)
    assert answer.model == "scripted" and answer.usage is not None
    assert answer.usage.prompt_tokens == engine.count(engine.prompts[0].messages)
    assert "frontend" not in engine.prompts[0].messages[-1].content


def test_of_an_ingested_page_the_source_speaks(plant: Plant) -> None:
    tree = plant({"wiki/rules/database.md": INGESTED})
    engine = ScriptedEngine([found("p1", "p2")])
    answer = query(tree, QUESTION, ["wiki/rules/database.md"], 500, engine)
    shown = engine.prompts[0].messages[-1].content
    assert "a year" not in shown and "claim" not in shown and "summary" not in shown
    assert "Written by a person" in shown
    assert [(each.line, each.text, each.source) for each in answer.citations] == [
        (10, "An alembic lock lasts ten seconds.", "raw/sources/db.0123456789ab.md:4"),
        (16, "~~~ An alembic lock is a row.", "raw/sources/db.0123456789ab.md:7"),
    ]
    lines = INGESTED.split("\n")
    assert [lines[each.line - 1] for each in answer.citations] == ["An alembic lock lasts ten seconds.", "~~~"]


@pytest.mark.parametrize(
    "reply",
    [
        found(),
        found("p3"),
        found("p1", "p1"),
        found("p1", answer=""),
        '{"found":true,"answer":"x"}',
        '{"found":false,"answer":"x"}',
        "Ten seconds.",
        found("p1", answer="a" * 401),
    ],
)
def test_no_answer_without_its_citation(reply: str) -> None:
    grammar = reply_grammar(["p1", "p2"])
    assert accepts(grammar, found("p2", "p1")) and accepts(grammar, '{"found":false}')
    assert not accepts(grammar, reply)


def test_the_model_may_say_that_it_is_not_there(plant: Plant) -> None:
    tree = plant()
    answer = query(tree, QUESTION, pages(tree), 500, ScriptedEngine(['{"found":false}']))
    assert answer.text is None and answer.citations == () and answer.pages == ("wiki/rules/database.md",)


def test_words_that_no_page_has_lead_nowhere(plant: Plant) -> None:
    assert pages(plant(), "zebra giraffe") == []


def test_what_is_nearest_is_shown_within_the_budget(plant: Plant) -> None:
    many = "# Locks\n\n" + "\n\n".join(f"Paragraph {n} on other things entirely." for n in range(200))
    tree = plant({"wiki/rules/database.md": many + "\n\nAn alembic lock lasts ten seconds.\n"})
    engine = ScriptedEngine([found("p2")], context=8000)
    answer = query(tree, QUESTION, ["wiki/rules/database.md"], 60, engine)
    assert answer.citations[-1].text.startswith(("An alembic lock", "Paragraph"))
    shown = engine.prompts[0].messages[-1].content
    assert "An alembic lock lasts ten seconds." in shown
    bare = engine.count([*engine.prompts[0].messages[:1], *engine.prompts[0].messages[1:]])
    assert bare <= 60 + len(re.findall(r"\w+|[^\w\s]", QUESTION + engine.prompts[0].messages[0].content)) + 30


def test_the_models_context_bounds_what_is_shown(plant: Plant) -> None:
    text = "\n\n".join(f"An alembic lock {n} lasts ten seconds." for n in range(100))
    tree = plant({"wiki/rules/database.md": text})
    engine = ScriptedEngine([found("p1")], context=500)
    query(tree, QUESTION, ["wiki/rules/database.md"], 10_000, engine)
    (asked,) = engine.prompts
    assert engine.count(asked.messages) + asked.sampling.max_tokens <= 500
    with pytest.raises(Problem, match="leaves no room for a passage"):
        query(tree, QUESTION, ["wiki/rules/database.md"], 10_000, ScriptedEngine(context=310))


def test_a_torn_reply_is_the_machines_fault(plant: Plant) -> None:
    tree = plant()

    class Torn(ScriptedEngine):
        def _answer(self, request: Request) -> Completion:
            from dataclasses import replace

            return replace(super()._answer(request), text='{"fou', valid=False, finish="length")

    with pytest.raises(MachineProblem, match="cut off"):
        query(tree, QUESTION, pages(tree), 500, Torn(['{"found":false}']))
