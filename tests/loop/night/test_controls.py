"""Controls and gates do what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.engine.backends.uniform import UniformEngine
from nightschool.loop import wiki
from nightschool.loop.gate import Candidate, make_gate


def test_shuffled_shows_train_answers_of_other_tasks(toy: Any) -> None:
    toy.night(control="shuffled")
    train = [json.loads(path.read_text()) for path in (toy.space.raw / "iter-001" / "train").iterdir()]
    answers = {record["task"].removeprefix("train-"): record["expected"].removeprefix("v-") for record in train}
    assert sorted(answers) == sorted(answers.values())
    assert not [key for key, answer in answers.items() if key == answer]


def test_shuffled_leaves_val_and_test_alone(toy: Any) -> None:
    toy.night(control="shuffled")
    for split in ("val", "test"):
        for path in (toy.space.raw / "iter-000" / split).iterdir():
            record = json.loads(path.read_text())
            assert record["expected"] == f"v-{record['task'].removeprefix(split + '-')}"


def test_placebo_asks_no_one_and_offers_bread(toy: Any) -> None:
    toy.night(control="placebo")
    assert not toy.prompts("maintainer") + toy.prompts("proposer")
    assert [(event["skill"], event["accepted"]) for event in toy.events("gate")] == [("bread-1", False)]
    assert "bread" in "".join(toy.prompts("student"))


def test_nowiki_writes_no_page(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    toy.proposals[0] = {key: value for key, value in toy.proposals[0].items() if key != "patterns"}
    toy.night(control="nowiki")
    assert not toy.prompts("maintainer")
    assert wiki.load(toy.space.wiki).pages == ()
    assert toy.skills() == ["helps"]


def test_nowiki_shows_no_page_of_an_earlier_night(toy: Any, words: Any) -> None:
    fields = {"problem": "wikiproblem"}
    toy.studies += [{"create": [words.page("house-values", "train-k0", **fields)], "log": "a"}]
    toy.proposals += [words.made("idle", "k0", instructions=["oldproposal"])]
    toy.student = lambda request: "no idea"
    toy.night()
    before = len(toy.prompts("proposer"))
    toy.night(control="nowiki")
    shown = "".join(toy.prompts("proposer")[before:])
    assert "wikiproblem" not in shown
    assert "house-values" not in shown
    assert "oldproposal" not in shown


def test_random_replies_follow_the_rules(toy: Any) -> None:
    """The uniform engine in the place of maintainer and proposer: whatever it says, the night is a valid one."""
    usual = toy.open_engine
    toy.open_engine = lambda alias: UniformEngine(usual("student").model) if alias != "student" else usual(alias)
    toy.night(control="random", min_reads=1, iterations=2)
    counts = [event["replies"] for event in toy.events("study") + toy.events("proposal")]
    assert all(count["valid"] == count["total"] > 0 for count in counts)
    assert [event["edits"]["applied"] for event in toy.events("study")] == [
        event["edits"]["total"] for event in toy.events("study")
    ]
    assert toy.events("end")


def test_an_unknown_control_names_the_nearest(toy: Any) -> None:
    with pytest.raises(Problem) as problem:
        toy.night(control="placeba")
    assert "placebo" in problem.value.advice


def test_strict_rejects_a_tie(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0"), words.made("same", "k1", instructions=["x"])]
    toy.student = lambda request: "v-k0" if "# " in request.messages[0].content else "no idea"
    toy.night(iterations=2)
    assert [event["accepted"] for event in toy.events("gate")] == [True, False]


def test_tie_accepts_a_tie_but_no_loss(toy: Any, words: Any) -> None:
    toy.student = lambda request: "v-k0" if "# loss" not in request.messages[0].content else "no idea"
    toy.proposals += [words.made("same", "k1"), words.made("loss", "k2")]
    toy.night(iterations=2, gate="tie")
    assert [event["accepted"] for event in toy.events("gate")] == [True, False]


def test_confirm_runs_both_again_and_needs_both_gains(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    toy.night(gate="confirm", student_temperature=0.5)
    assert [event["event"] for event in toy.journal.events if event["event"] in ("confirm", "standing")] == [
        "confirm",
        "standing",
    ]
    assert "confirmed at temperature: 0.250 against 0.000" in toy.events("gate")[0]["reason"]


def test_confirm_rejects_a_gain_that_does_not_come_again(toy: Any, words: Any) -> None:
    answers = iter(["v-k0"] + ["no idea"] * 100)
    toy.student = lambda request: next(answers) if "# helps" in request.messages[0].content else "no idea"
    toy.proposals += [words.made("helps", "k0")]
    toy.space.save(toy.space.config())
    toy.night(gate="confirm", student_temperature=0.5)
    assert not toy.events("gate")[0]["accepted"]
    assert "not confirmed" in toy.events("gate")[0]["reason"]


def test_the_confirming_run_draws_other_noise(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    toy.night(gate="confirm", student_temperature=0.5)
    seeds = [json.loads(toy.read(f"raw/iter-001/{split}/val-k0.json"))["seed"] for split in ("val", "confirm")]
    assert seeds[0] != seeds[1]


def test_val_draws_the_same_noise_in_every_iteration(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0"), words.made("more", "k1")]
    toy.night(iterations=2, student_temperature=0.5)
    seeds = {json.loads(toy.read(f"raw/iter-00{k}/val/val-k0.json"))["seed"] for k in (0, 1, 2)}
    assert len(seeds) == 1


def test_confirm_is_refused_for_a_greedy_student(toy: Any) -> None:
    with pytest.raises(Problem, match="confirm needs a student temperature"):
        toy.night(gate="confirm")
    assert not toy.journal.events


def test_sure_wants_more_than_luck_and_carries_what_stands_into_the_next_night(toys: Any, words: Any) -> None:
    val = [
        words.line("val", key, ask) | {"id": f"{ask}-{key}"}
        for key in ("k0", "k1", "k2", "k3")
        for ask in ("Tell", "Name", "Give")
    ]
    toy = toys(words.tasks | {"val": val}, gate="sure")
    toy.proposals += [words.made("lucky", "k0"), words.made("real", "k0", "k1")]
    toy.night(iterations=2)
    lucky, real = toy.events("gate")
    assert (lucky["score"], lucky["accepted"]) == (0.25, False)
    assert lucky["reason"].endswith("3 tasks better, 0 worse, p 0.125: may be luck")
    assert (real["score"], real["accepted"]) == (0.5, True)
    assert real["reason"].endswith("6 tasks better, 0 worse, p 0.016: not luck")
    toy.proposals += [words.made("more", "k2")]
    toy.night(iterations=1)
    assert toy.events("gate")[-1]["reason"].endswith("3 tasks better, 0 worse, p 0.125: may be luck")


def test_sure_rejects_a_loss_that_outweighs_many_gains() -> None:
    verdict = make_gate("sure", student_temperature=0).decide((), Candidate(0.4, 0.5, better=30, worse=2))
    assert not verdict.accepted


def test_an_unknown_gate_names_the_nearest(toy: Any) -> None:
    with pytest.raises(Problem) as problem:
        toy.night(gate="strickt")
    assert "strict" in problem.value.advice
