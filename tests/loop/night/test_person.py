"""A person edits pages and skills, between nights and in the middle of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nightschool.loop import wiki


class Stopped(BaseException):
    """Stands for a kill at a place that a test chose."""


def stop_after(toy: Any, event: str, k: int, then: Callable[[], None] = lambda: None) -> None:
    """Run the night up to this event, as if it was killed there; then a person does something."""

    def stop(record: Any) -> None:
        if (record["event"], record["k"]) == (event, k):
            raise Stopped

    toy.watcher.event = stop
    with pytest.raises(Stopped):
        toy.night()
    del toy.watcher.event
    then()


@pytest.fixture
def first(toy: Any, words: Any) -> Any:
    """After a night that kept a skill for one of four keys."""
    toy.proposals += [words.made("helps", "k0")]
    toy.night()
    return toy


def test_the_next_night_carries_its_score_on(first: Any) -> None:
    vals = len(first.events("val"))
    first.night()
    assert len(first.events("val")) == vals, "val was not run again"
    assert [event["score"] for event in first.events("baseline")] == [0.0, 0.25]


def test_iteration_numbers_go_on(first: Any) -> None:
    first.night(iterations=2)
    assert [event["k"] for event in first.events("settled")] == [1, 3, 4]


def test_the_next_night_compares_with_the_skills_it_began_with(first: Any, words: Any) -> None:
    first.proposals += [words.made("more", "k1")]
    first.night()
    assert [(event["first"], event["final"]) for event in first.events("result")] == [(0.0, 0.25), (0.25, 0.5)]


def test_skills_edited_between_nights_make_a_new_baseline(first: Any, words: Any) -> None:
    first.write("skills/mine/SKILL.md", words.by_hand("mine", "k1", "k2"))
    first.night()
    assert [event["score"] for event in first.events("baseline")] == [0.0, 0.75]


def test_a_suite_edited_between_nights_makes_a_new_baseline(first: Any, words: Any) -> None:
    first.write("suite/suite.toml", words.toml.replace("Answer.", "Answer now."))
    first.night()
    assert [event["score"] for event in first.events("baseline")] == [0.0, 0.25]
    assert len([event for event in first.events("val") if event["k"] == 2]) == 1


def test_an_edit_of_the_evolve_table_counts_from_the_next_night_on(first: Any, words: Any) -> None:
    first.write("suite/suite.toml", words.toml + 'gate = "tie"\n')
    first.night()
    assert first.space.config().settings.gate == "tie"


def test_a_flag_wins_over_the_table_until_the_table_is_edited(first: Any, words: Any) -> None:
    first.night(min_reads=3)
    assert first.space.config().settings.min_reads == 3
    first.night()
    assert first.space.config().settings.min_reads == 3
    first.write("suite/suite.toml", words.toml.replace("min_reads = 2", "min_reads = 1"))
    first.night()
    assert first.space.config().settings.min_reads == 1


def test_another_seed_makes_a_new_baseline(first: Any) -> None:
    first.night(seed=5)
    assert len([event for event in first.events("val") if event["k"] == 2]) == 1


def test_files_of_a_person_survive_an_accept(first: Any, words: Any) -> None:
    first.write("skills/mine/SKILL.md", words.by_hand("mine"))
    first.write("skills/mine/scripts/run.py", "print()")
    first.write("skills/README.md", "mine")
    first.proposals += [words.made("more", "k1")]
    first.night()
    assert first.skills() == ["README.md", "helps", "mine", "more"]
    assert first.read("skills/mine/scripts/run.py") == "print()"


def test_a_page_edited_between_nights_is_read_as_it_stands(first: Any) -> None:
    first.write("wiki/patterns/mine.md", "---\nid: mine\n---\n## Problem\n- my own words\n")
    first.night()
    assert "my own words" in first.prompts("maintainer")[-1]
    assert "my own words" in first.read("wiki/index.md")


def test_a_page_edited_while_the_maintainer_thought_keeps_the_persons_text(first: Any, words: Any) -> None:
    edit = {"op": "append", "page": "house-values", "content": ["learned"], "evidence": ["train-k1"]}

    def think(request: Any) -> str:
        text = first.read("wiki/patterns/house-values.md")
        first.write("wiki/patterns/house-values.md", text + "- typed at night\n")
        first.maintain = usual
        return str(usual(request))

    usual = first.maintain
    first.studies += [words.study(edit)]
    first.maintain = think
    first.night()
    page = first.read("wiki/patterns/house-values.md")
    assert "- typed at night\n" in page
    assert "- learned\n" in page


def test_a_page_edited_while_a_night_is_stopped_keeps_both(first: Any, words: Any) -> None:
    edit = {"op": "append", "page": "house-values", "content": ["learned"], "evidence": ["train-k1"]}
    first.studies += [words.study(edit)]
    text = first.read("wiki/patterns/house-values.md")
    stop_after(first, "study", 3, lambda: first.write("wiki/patterns/house-values.md", text + "- typed\n"))
    first.night()
    page = first.read("wiki/patterns/house-values.md")
    assert page.startswith(text)
    assert page.removeprefix(text) == "- typed\n- learned\n"


def test_a_page_removed_while_a_night_is_stopped_stays_away(first: Any, words: Any) -> None:
    edit = {"op": "append", "page": "house-values", "content": ["learned"], "evidence": ["train-k1"]}
    first.studies += [words.study(edit)]
    stop_after(first, "study", 3, lambda: (first.space.wiki / "patterns" / "house-values.md").unlink())
    first.night()
    assert wiki.load(first.space.wiki).pages == ()


def test_skills_edited_in_the_middle_of_a_night_are_measured_again(toy: Any, words: Any) -> None:
    toy.space.save(toy.space.config().changed(iterations=2))
    toy.proposals += [{"action": "no_action", "reason": "later"}, words.made("helps", "k0")]
    stop_after(toy, "settled", 1, lambda: toy.write("skills/mine/SKILL.md", words.by_hand("mine", "k1", "k2")))
    toy.night()
    assert [(event["k"], event["score"]) for event in toy.events("baseline")] == [(0, 0.0), (2, 0.5)]
    assert [(event["best"], event["score"]) for event in toy.events("gate")] == [(0.5, 0.75)]
    assert toy.skills() == ["helps", "mine"]


def test_an_edit_in_the_middle_of_an_iteration_raises_its_bar(toy: Any, words: Any) -> None:
    toy.proposals += [words.made("helps", "k0")]
    hand = words.by_hand("mine", "k0", "k1")
    stop_after(toy, "proposal", 1, lambda: toy.write("skills/mine/SKILL.md", hand))
    toy.night()
    assert [(event["best"], event["accepted"]) for event in toy.events("gate")] == [(0.5, False)]
    assert toy.skills() == ["mine"]


def test_the_skill_that_a_person_edits_is_not_overwritten(first: Any, words: Any) -> None:
    patch = {"action": "patch", "skill": "helps", "edits": [], "examples": ["train-k1"]}
    first.proposals += [patch]
    stop_after(first, "proposal", 3, lambda: first.write("skills/helps/SKILL.md", words.by_hand("helps", "k0")))
    first.night()
    assert first.read("skills/helps/SKILL.md") == words.by_hand("helps", "k0")
    assert "edited by hand" in first.events("settled")[-1]["reason"]


def test_a_skill_edited_while_its_candidate_is_tried_is_not_overwritten(first: Any, words: Any) -> None:
    first.proposals += [{"action": "patch", "skill": "helps", "edits": [], "examples": ["train-k1"]}]
    hand = words.by_hand("helps", "k0", text="typed during val")
    first.watcher.stage = lambda k, name, total: k == 3 and name == "val" and first.write("skills/helps/SKILL.md", hand)
    first.night()
    assert first.read("skills/helps/SKILL.md") == hand


def test_a_removed_skill_lowers_the_bar(first: Any, words: Any) -> None:
    import shutil

    shutil.rmtree(first.space.skills / "helps")
    first.proposals += [words.made("other", "k0")]
    first.night()
    assert first.skills() == ["other"]


def test_traces_that_are_gone_stop_nothing(first: Any, words: Any) -> None:
    """A workspace from git has a wiki that cites traces, but no raw/ and no journal."""
    import shutil

    before = first.read("wiki/patterns/house-values.md")
    shutil.rmtree(first.space.raw)
    first.space.journal.unlink()
    edit = {"op": "append", "page": "house-values", "content": ["learned"], "evidence": ["train-k1"]}
    first.studies += [words.study(edit)]
    first.proposals += [words.made("more", "k1")]
    first.night()
    assert first.skills() == ["helps", "more"]
    page = wiki.load(first.space.wiki).page("house-values")
    assert [block.split(" ")[1] for block in page.part("Evidence").split("\n") if block.startswith("- ")] == [
        "iter-001/train/train-k0",
        "iter-003/train/train-k1",
    ]
    assert "Expected: v-k0" in page.part("Evidence"), before


def test_numbers_go_on_where_the_journal_is_gone(first: Any, words: Any) -> None:
    first.space.journal.unlink()
    first.proposals += [words.made("more", "k1")]
    first.night()
    assert [event["k"] for event in first.events("settled")] == [3]
    assert len(wiki.entries(first.read("wiki/skill-impact.md"))) == 2


def test_a_broken_skill_is_a_problem_that_names_the_file(first: Any) -> None:
    from nightschool.disk.errors import Problem

    first.write("skills/helps/SKILL.md", "no front matter")
    with pytest.raises(Problem, match=r"helps/SKILL\.md"):
        first.night()
