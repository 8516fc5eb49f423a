"""The rules of the method, on nights without a model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.engine import drive
from nightschool.loop import skills, wiki
from nightschool.loop.meter import Meter


def test_a_skill_that_helps_is_kept_and_the_score_rises(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0", "k1")]
    toy.night()
    assert toy.skills() == ["helps"]
    assert [event["score"] for event in toy.events("baseline") + toy.events("settled")] == [0.0, 0.5]


def test_a_skill_that_does_not_help_is_dropped_and_the_wiki_is_kept(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0"), words.made("idle", "k1", instructions=["nothing"])]
    toy.student = lambda request: "no idea"
    toy.night(iterations=2)
    assert toy.skills() == []
    assert not toy.space.candidate.exists()
    assert "house-values" in wiki.load(toy.space.wiki)
    assert "house-values" in toy.read("wiki/index.md")


def test_a_rejected_creation_is_remembered_in_full(toy: Any, words: Any) -> None:
    toy.student = lambda request: "no idea"
    toy.proposals += [words.made("idle", "k1", instructions=["a very special instruction"])]
    toy.night()
    entry = dict(wiki.entries(toy.read("wiki/skill-impact.md")))["iteration 1 | rejected | create idle"]
    assert '"instructions": ["a very special instruction"]' in entry, "the proposal"
    assert "    +- a very special instruction" in entry, "the diff"
    assert "    - a very special instruction" in entry, "the text"
    assert "    +Answer: v-k1" in entry
    assert "# Purpose of idle" in entry


def test_every_iteration_is_told_once_in_both_logs(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0"), words.made("idle", "k0")]
    toy.night(iterations=3)
    for log in ("wiki/logs.md", "wiki/skill-impact.md"):
        assert [heading.split(" | ")[0] for heading, _ in wiki.entries(toy.read(log))] == [
            f"iteration {k}" for k in (1, 2, 3)
        ]


def test_the_night_ends_early_at_a_perfect_score(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0", "k1", "k2", "k3")]
    toy.night(iterations=5)
    assert len(toy.events("settled")) == 1
    assert toy.events("end")[0]["reason"] == "val is perfect"


def test_a_perfect_baseline_leaves_nothing_to_do(toy: Any) -> None:
    toy.student = lambda request: "v-" + request.messages[-1].content.split()[-1]
    toy.night()
    assert [event["event"] for event in toy.journal.events] == ["night", "val", "baseline", "test", "result", "end"]


def test_one_skill_changes_in_an_iteration(toy: Any, words: Any) -> None:
    toy.proposals += [words.made(f"skill-{key}", key) for key in ("k0", "k1", "k2")]
    before: dict[str, Any] = {}
    changed = []

    def compare(record: Any) -> None:
        nonlocal before
        if record["event"] == "settled":
            after = dict(skills.load(toy.space.skills))
            changed.append([name for name in {*before, *after} if before.get(name) != after.get(name)])
            before = after

    toy.watcher.event = compare
    toy.night(iterations=3)
    assert changed == [["skill-k0"], ["skill-k1"], ["skill-k2"]]


def test_skills_are_untouched_until_an_accept_is_in_the_journal(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0"), words.made("more", "k1")]
    seen = []
    toy.watcher.event = lambda record: seen.append((record["event"], toy.skills()))
    toy.night(iterations=2)
    gates = [names for event, names in seen if event == "gate"]
    assert gates == [[], ["helps"]]
    assert [names for event, names in seen if event == "settled"] == [["helps"], ["helps", "more"]]


def test_the_proposer_reads_as_many_traces_as_it_must(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    toy.night(min_reads=3)
    assert toy.events("proposal")[0]["reads"] == ["traces/train-k0", "traces/train-k1", "traces/train-k2"]


def test_where_there_are_fewer_traces_it_reads_all(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    toy.night(min_reads=400)
    assert len(toy.events("proposal")[0]["reads"]) == 4


def test_a_finish_before_enough_reads_is_not_in_the_grammar(toy: Any) -> None:
    toy.night(min_reads=2)
    first, second, third = [request.grammar.lark for request in toy.engines["proposer"][0].prompts]
    assert "finish" not in first
    assert "finish" not in second
    assert "finish" in third


def test_what_was_read_is_not_offered_again(toy: Any) -> None:
    toy.night(min_reads=2)
    first, second, _ = [request.grammar.lark for request in toy.engines["proposer"][0].prompts]
    assert "train-k0" in first
    assert "train-k0" not in second


def test_reading_ends_at_the_turn_limit(toy: Any) -> None:
    shown = iter(["traces/train-k0", "traces/train-k1", "traces/train-k2", "traces/train-k3"])

    def greedy(request: Any) -> str:
        if "read_file" in request.grammar.lark:
            return json.dumps({"thought": "so", "action": "read_file", "path": next(shown)}, separators=(",", ":"))
        return '{"thought":"so","action":"finish","proposal":{"action":"no_action","reason":"at last"}}'

    toy.propose = greedy
    toy.space.save(toy.space.config().changed(max_turns=3))
    toy.night(min_reads=1)
    assert len(toy.events("proposal")[0]["reads"]) == 3


def test_other_reading_leaves_turns_for_the_traces(toy: Any) -> None:
    known = ["impact/001", "traces/train-k0", "traces/train-k1", "traces/train-k2", "traces/train-k3"]

    def curious(request: Any) -> str:
        for path in known:
            if path in request.grammar.lark:
                return json.dumps({"thought": "so", "action": "read_file", "path": path}, separators=(",", ":"))
        return '{"thought":"so","action":"finish","proposal":{"action":"no_action","reason":"at last"}}'

    toy.propose = curious
    toy.space.save(toy.space.config().changed(max_turns=2))
    toy.night(min_reads=2, iterations=2)
    assert [event["reason"] for event in toy.events("settled")] == ["at last", "at last"]
    assert [len(event["reads"]) for event in toy.events("proposal")] == [2, 2]


def test_an_equal_rejected_change_goes_back_with_the_reason(toy: Any, words: Any) -> None:
    toy.student = lambda request: "no idea"
    again = words.made("idle", "k0")
    toy.proposals += [again, again, words.made("other", "k1")]
    toy.night(iterations=2)
    assert [event["skill"] for event in toy.events("settled")] == ["idle", "other"]
    assert "the same change was rejected before" in toy.prompts("proposer")[-1]
    assert toy.events("proposal")[1]["replies"]["retried"] == 1


def test_going_back_is_bounded(toy: Any, words: Any) -> None:
    toy.student = lambda request: "no idea"
    toy.proposals += [words.made("idle", "k0")] * 10
    toy.night(iterations=2)
    assert [event["action"] for event in toy.events("settled")] == ["create", "no_action"]
    assert len(toy.proposals) == 10 - 1 - 3
    assert toy.events("proposal")[1]["replies"]["degraded"] == 1


def test_a_rejected_change_is_remembered_in_the_next_night(toy: Any, words: Any) -> None:
    toy.student = lambda request: "no idea"
    toy.proposals += [words.made("idle", "k0")]
    toy.night()
    toy.proposals += [words.made("idle", "k0"), words.made("other", "k1")]
    toy.night()
    assert toy.events("settled")[-1]["skill"] == "other"


def test_a_candidate_that_does_not_fit_the_student_goes_back(toys: Any, words: Any) -> None:
    tasks = [dict(line, prompt=f"{'long ' * 120} {line['prompt']}") for line in words.tasks["train"]]
    toy = toys({**words.tasks, "train": tasks})
    toy.open_engine = _narrow(toy, 560)
    toy.proposals += [words.made("huge", "k0", "k1", "k2", "k3"), words.made("small", "k0")]
    toy.night()
    assert [event["skill"] for event in toy.events("settled")] == ["small"]
    assert "and the context has 560" in toy.prompts("proposer")[-1]
    assert not any("huge" in prompt for prompt in toy.prompts("student"))


def _narrow(toy: Any, context: int) -> Any:
    usual = toy.open_engine

    def opened(alias: str) -> Any:
        toy.context = context if alias == "student" else 8192
        return usual(alias)

    return opened


def test_retries_fit_wherever_the_context_ends(toys: Any, words: Any) -> None:
    """Whatever the context, a proposal that is refused goes back without a prompt that is too long."""
    tasks = [dict(line, prompt=f"{'long ' * 700} {line['prompt']}") for line in words.tasks["train"]]
    toy = toys({**words.tasks, "train": tasks})
    wordy = "a b c d e f " * 9
    long = words.made("idle", "k0", description=wordy, when=[wordy] * 2, when_not=[wordy], instructions=[wordy] * 2)
    del long["patterns"]

    def full(request: Any) -> str:
        unread = [task["id"] for task in tasks if f"traces/{task['id']}" in request.grammar.lark]
        finish = {"action": "finish", "proposal": long}
        action = {"action": "read_file", "path": f"traces/{unread[0]}"} if unread else finish
        return json.dumps({"thought": "so", **action}, separators=(",", ":"))

    with toy.opened() as night:
        traces = night.rollout(1, "train", night.suite.train, night.state(1).skills)
        state = replace(night.state(1), too_long=lambda candidate: "it is too long")
    read = set()
    for context in range(2000, 5000, 25):
        engine = ScriptedEngine(default=full, context=context)
        asking = replace(state, proposer=Meter(engine.count, context))
        [(_, proposal)] = drive(engine, {"proposer": night.strategy.propose(asking, traces)})
        assert proposal.replies["degraded"] == 1
        read.add(len(proposal.reads))
    assert read == {0, 1, 2, 3, 4}


def test_a_change_that_breaks_the_rules_of_a_skill_goes_back(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("blank", "k0", description=""), words.made("helps", "k0")]
    toy.night()
    assert toy.skills() == ["helps"]


def test_why_replies_went_back_is_journaled_and_what_says_nothing_is_left_out(toy: Any, words: Any) -> None:
    pages = [words.page("house-values", "train-k0"), words.page("noise", "train-k0", fix=["---"])]
    toy.studies += [{"create": pages, "log": "a"}] * 3
    toy.proposals += [words.made("helps", "k0", instructions=["the the the"]), words.made("helps", "k0")]
    toy.night()
    (study,), (proposed,) = toy.events("study"), toy.events("proposal")
    assert study["refused"] == ['the text "---" has no letter'] * 3 and study["pages"] == ["house-values"]
    assert proposed["refused"] == ['the text "the the the" says one thing over and over']
    assert toy.skills() == ["helps"] and "(left out: " in toy.read("wiki/logs.md")
