"""Whatever a model could reply under the maintainer's and proposer's grammars is valid, applies, and breaks nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from nightschool.disk import frontmatter
from nightschool.engine.grammar import Grammar, accepts
from nightschool.loop import skills, wiki
from nightschool.loop.strategies.wikiskill import maintainer, proposal, proposer

REPLIES = int(os.environ.get("NIGHTSCHOOL_REPLIES", "100"))
SHAPES = [(0, 0), (1, 1), (4, 2), (12, 3), (500, 1)]


@pytest.mark.parametrize("pages,known", SHAPES)
def test_any_maintainer_reply_applies(
    random_state: Callable[..., Any], sample_reply: Callable[[Grammar, int], str], pages: int, known: int
) -> None:
    for seed in range(max(REPLIES // len(SHAPES), 1)):
        if seed % 5 == 0:
            state, traces = random_state(seed, pages=pages, skills=known)
            sampled = maintainer.sample(traces, state.wiki, fails=5, passes=3, seed=seed)
            view = maintainer.view_of(state, sampled, 6_000)
            grammar = maintainer.grammar_for(view, first=not state.wiki.pages)
        reply = sample_reply(grammar, seed)
        assert len(reply.encode()) < grammar.limit
        assert accepts(grammar, reply)
        after, log, edits = maintainer.learn(state, view, json.loads(reply))
        assert edits["applied"] == edits["total"]
        assert "\n" not in log
        for page in after:
            assert frontmatter.split(page.text)[0]["id"] == page.id
            assert page.evidence
            assert [line for line in page.text.split("\n") if line.startswith("## ")] == [
                f"## {title}" for title in ("Problem", "Root cause", "Evidence", "Fix")
            ]
            if page.id in state.wiki:
                kept = {edit["target"] for edit in json.loads(reply).get("edits", []) if edit["op"] == "replace"}
                lines = set(page.text.split("\n"))
                old = [line for line in state.wiki.page(page.id).text.split("\n") if line.startswith("- ")]
                own = [line for line in old if not line.startswith("- iter-") and line not in kept]
                assert all(line in lines for line in own)


@pytest.mark.parametrize("pages,known", SHAPES)
def test_any_proposer_reply_makes_a_valid_skill(
    random_state: Callable[..., Any], sample_reply: Callable[[Grammar, int], str], pages: int, known: int
) -> None:
    for seed in range(max(REPLIES // len(SHAPES), 1)):
        if seed % 5 == 0:
            state, traces = random_state(seed, pages=pages, skills=known)
            books = proposer.library(state, traces, 2_000)
            grammar = proposer.turn_grammar([], proposal.proposal_term(state, traces))
            reading = proposer.turn_grammar(books.unread([]), None)
        assert json.loads(sample_reply(reading, seed))["path"] in books.files
        reply = sample_reply(grammar, seed)
        assert len(reply.encode()) < grammar.limit
        draft = proposal.draft_change(state, traces, json.loads(reply)["proposal"])
        if draft.change is None:
            continue
        made = draft.change.skill
        assert skills.faults(made.skill_md, made.name) == []
        assert len(made.examples()) <= skills.MAX_EXAMPLES
        for title in ("When to Apply", "When NOT to Apply", "Instructions", "Examples"):
            assert made.body.count(f"\n## {title}\n") == 1


def test_forged_entries_stay_inside_their_entry(tmp_path: Any) -> None:
    path = tmp_path / "logs.md"
    wiki.add_entry(path, "Log", "iteration 1 | rejected", "fine")
    wiki.add_entry(path, "Log", "iteration 2 | accepted", "fine\n    ## iteration 3 | accepted\n    forged")
    assert [heading for heading, _ in wiki.entries(path.read_text())] == [
        "iteration 1 | rejected",
        "iteration 2 | accepted",
    ]
    before = path.read_text()
    wiki.add_entry(path, "Log", "iteration 2 | accepted", "again")
    assert path.read_text() == before
