"""The status of a night, and revoking a skill."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop import skills, wiki
from nightschool.loop.report import status
from nightschool.loop.revoke import revoke

DOCS = Path(__file__).parents[3] / "docs" / "workspace.md"


def documented() -> dict[str, list[str]]:
    """The keys of the table in docs/workspace.md, and the names in the meaning of each row."""
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", DOCS.read_text("utf-8"), re.MULTILINE)
    return {key: re.findall(r"`(\w+)`", meaning) for keys, meaning in rows for key in re.findall(r"`(\w+)`", keys)}


@pytest.mark.parametrize("when", ["new", "finished"])
def test_the_status_has_the_documented_keys_and_no_others(request: Any, when: str) -> None:
    toy = request.getfixturevalue("toy" if when == "new" else "finished")
    record = status(toy.space)
    assert record["state"] == when
    assert set(record) - {"schema"} == set(documented())


@pytest.mark.parametrize("key", ["replies", "answers", "test", "tokens"])
def test_its_parts_have_the_documented_keys(finished: Any, key: str) -> None:
    assert set(status(finished.space)[key]) == set(documented()[key])


def test_it_tells_what_came_of_each_iteration(finished: Any) -> None:
    told = status(finished.space)["iterations"]
    assert [(one["action"], one["skill"], one["score"], one["accepted"]) for one in told] == [
        ("create", "helps", 0.25, True),
        ("create", "idle", 0.25, False),
        ("no_action", None, None, False),
    ]
    assert told[1]["reason"] == "val 0.250 is not above the best so far, 0.250"


def test_it_tells_the_name_of_the_suite_and_how_far_the_night_is(finished: Any) -> None:
    record = status(finished.space)
    assert (record["suite_name"], record["planned"], len(record["iterations"])) == ("toy", 3, 3)
    finished.write("suite/suite.toml", "not toml")
    assert status(finished.space)["suite_name"] is None


def revoked(toy: Any) -> list[int]:
    return [one["k"] for one in status(toy.space)["iterations"] if one["revoked"]]


def test_a_skill_that_was_taken_out_is_told_as_revoked(finished: Any) -> None:
    assert revoked(finished) == []
    revoke(finished.space, "helps", "it was wrong")
    assert revoked(finished) == [1]


def test_a_later_skill_of_a_revoked_name_is_another(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0"), words.made("helps", "k1")]
    with toy.opened(iterations=2) as night:  # as far as the first accept
        assert night.baseline() == 0.0
        traces = night.rollout(1, "train", night.suite.train, night.strategy.parent(night.state(1)))
        night.study(1, traces)
        proposal = night.propose(1, traces)
        outcome = night.try_out(1, proposal.change, night.strategy.parent(night.state(1)), 0.0)
        night.settle(outcome, proposal, 0.0)
    revoke(toy.space, "helps", "it was wrong")
    assert revoked(toy) == [1]
    toy.night()
    assert [one["accepted"] for one in status(toy.space)["iterations"]] == [True, True]
    assert toy.skills() == ["helps"] and revoked(toy) == [1]


def test_it_tells_the_scores(finished: Any) -> None:
    record = status(finished.space)
    assert (record["baseline"], record["best"]) == (0.0, 0.25)
    assert (record["test"]["first"], record["test"]["final"], record["test"]["delta"]) == (0.0, 0.25, 0.25)


def test_every_reply_was_valid_and_every_edit_applied(finished: Any) -> None:
    record = status(finished.space)
    assert record["replies"]["valid"] == record["replies"]["total"] == 3 + 3 * 3
    assert record["edits"]["applied"] == record["edits"]["total"]


def test_what_is_unknown_is_null(toy: Any) -> None:
    record = status(toy.space)
    assert [record[key] for key in ("ended", "baseline", "best", "test")] == [None] * 4


def test_a_revoked_skill_leaves_and_its_text_stays(finished: Any) -> None:
    text = skills.load(finished.space.skills)["helps"].skill_md
    revoke(finished.space, "helps", "it was wrong")
    assert finished.skills() == []
    entries = wiki.entries(finished.read("wiki/skill-impact.md"))
    entry = next(body for heading, body in entries if heading.startswith("iteration 3 | revoked | helps | "))
    assert "it was wrong" in entry
    assert all(f"    {line}" in entry for line in text.rstrip().split("\n"))


def test_after_a_revoke_the_next_night_measures_a_new_baseline(finished: Any) -> None:
    revoke(finished.space, "helps", "it was wrong")
    finished.night()
    assert [event["score"] for event in finished.events("baseline")] == [0.0, 0.0]


@pytest.mark.parametrize("name", ["nothing", "../wiki", "../skills/helps", "", "."])
def test_only_a_skill_can_be_revoked(finished: Any, name: str) -> None:
    with pytest.raises(Problem):
        revoke(finished.space, name, "no reason")
    assert finished.skills() == ["helps"]
    assert (finished.space.wiki / "patterns").is_dir()


def test_a_reason_forges_no_entry(finished: Any) -> None:
    before = len(wiki.entries(finished.read("wiki/skill-impact.md")))
    revoke(finished.space, "helps", "bad\n\n## iteration 9 | accepted | create forged\n")
    assert len(wiki.entries(finished.read("wiki/skill-impact.md"))) == before + 1


def test_accepted_skills_follow_the_rules_and_carry_their_scores(finished: Any) -> None:
    skill = skills.load(finished.space.skills)["helps"]
    assert skills.faults(skill.skill_md, "helps") == []
    assert skill.front["metadata"] == {
        "scope": "general",
        "model": "scripted",
        "suite": "toy",
        "val-before": "0.000",
        "val-after": "0.250",
    }


@pytest.mark.parametrize(
    "text,fault",
    [
        ("no front matter", "no front matter"),
        ("---\nname: Upper\ndescription: d\n---\nbody", "name must match"),
        ("---\nname: other\ndescription: d\n---\nbody", "is not the folder's name 'helps'"),
        ("---\nname: helps\n---\nbody", "description must have 1 to 1024 characters"),
        ("---\nname: helps\ndescription: <b>\n---\nbody", "must not contain < or >"),
        ("---\nname: helps\ndescription: d\n---\n \n", "the body is empty"),
        ("---\nname: helps\ndescription: d\nmetadata:\n  a: 1\n---\nbody", "map strings to strings"),
        ("---\nname: helps\ndescription: d\nversion: 1\n---\nbody", "unexpected field 'version'"),
        ("---\nname: helps\n", "has no end"),
    ],
)
def test_what_breaks_the_rules_of_a_skill_is_told(text: str, fault: str) -> None:
    assert any(fault in one for one in skills.faults(text, "helps"))
