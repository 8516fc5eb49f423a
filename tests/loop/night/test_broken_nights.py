"""What a session that was paid to break a night found: people, links and kills at awkward places."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop import plans, skills
from nightschool.loop.revoke import revoke


class Stopped(BaseException):
    """Stands for a kill at a place that a test chose."""


def stop(toy: Any, at: Callable[[str, int], bool], what: str = "event") -> None:
    """Run the night up to an event or a stage, as if it was killed there."""
    told = (lambda record: (record["event"], record["k"])) if what == "event" else (lambda k, name, total: (name, k))

    def tell(*arguments: Any) -> None:
        if at(*told(*arguments)):
            raise Stopped

    setattr(toy.watcher, what, tell)
    with pytest.raises(Stopped):
        toy.night()
    delattr(toy.watcher, what)


@pytest.fixture
def elsewhere(tmp_path: Path, words: Any) -> Path:
    """A skill that a person keeps outside the workspace; it knows k3."""
    folder = tmp_path / "elsewhere" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(words.by_hand("mine", "k3"))
    return folder


def test_a_linked_skill_stands_after_an_accept(toy: Any, words: Any, elsewhere: Path) -> None:
    (toy.space.skills / "mine").symlink_to(elsewhere)
    toy.proposals += [words.made("local", "k0")]
    toy.night()
    assert toy.skills() == ["local", "mine"]
    assert (toy.space.skills / "mine").readlink() == elsewhere
    assert toy.events("result")[0]["final"] == 0.5


@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_a_patch_writes_nothing_that_a_link_leads_to(toy: Any, words: Any, elsewhere: Path, whole: bool) -> None:
    before = (elsewhere / "SKILL.md").read_bytes()
    if whole:
        (toy.space.skills / "mine").symlink_to(elsewhere)
    else:
        (toy.space.skills / "mine").mkdir()
        (toy.space.skills / "mine" / "SKILL.md").symlink_to(elsewhere / "SKILL.md")
    toy.proposals += [{"action": "patch", "skill": "mine", "edits": [], "examples": ["train-k0"]}]
    toy.night()
    assert toy.events("gate")[0]["accepted"]
    assert (elsewhere / "SKILL.md").read_bytes() == before
    assert "v-k0" in toy.read("skills/mine/SKILL.md")


def test_links_and_empty_folders_in_a_skill_survive_an_accept(toy: Any, words: Any, elsewhere: Path) -> None:
    toy.write("skills/mine/SKILL.md", words.by_hand("mine", "k3"))
    (toy.space.skills / "mine" / "scripts").symlink_to(elsewhere)
    (toy.space.skills / "mine" / "gone").symlink_to("nowhere")
    (toy.space.skills / "mine" / "assets").mkdir()
    toy.proposals += [words.made("local", "k0")]
    toy.night()
    assert {path.name for path in (toy.space.skills / "mine").iterdir()} == {"SKILL.md", "scripts", "gone", "assets"}
    assert (toy.space.skills / "mine" / "gone").is_symlink()


def test_revoking_a_linked_skill_takes_the_link_only(toy: Any, elsewhere: Path) -> None:
    (toy.space.skills / "mine").symlink_to(elsewhere)
    revoke(toy.space, "mine", "not here")
    assert toy.skills() == []
    assert (elsewhere / "SKILL.md").is_file()
    toy.night()
    assert toy.journal.events[-1]["event"] == "end"


def test_revoking_keeps_what_the_log_cannot(toy: Any, words: Any) -> None:
    for _ in range(2):
        toy.write("skills/mine/SKILL.md", words.by_hand("mine", "k3"))
        toy.write("skills/mine/scripts/run.sh", "echo precious")
        revoke(toy.space, "mine", "no")
        assert toy.skills() == []
    kept = sorted(path.name for path in (toy.space.raw / "revoked").glob("*/scripts/run.sh"))
    assert kept == ["run.sh", "run.sh"]
    assert "raw/revoked/mine-" in toy.read("wiki/skill-impact.md")


def test_val_counts_for_the_skills_that_it_was_run_with(toys: Any, words: Any) -> None:
    """Revoked while a confirming run was stopped, a skill must not lend its score to the candidate."""
    toy = toys(gate="confirm", student_temperature=0.5)
    toy.write("skills/mine/SKILL.md", words.by_hand("mine", "k1", "k2"))
    toy.proposals += [words.made("local", "k0")]
    stop(toy, lambda name, k: name == "standing", "stage")
    assert [event["score"] for event in toy.events("confirm")] == [0.75]
    revoke(toy.space, "mine", "bad")
    toy.night()
    assert [(event["best"], event["score"]) for event in toy.events("gate")] == [(0.0, 0.25)]
    assert [event["score"] for event in toy.events("confirm")] == [0.75, 0.25]


def test_an_edit_after_the_verdict_stands(toys: Any, words: Any) -> None:
    toy = toys(iterations=2)
    toy.write("skills/mine/SKILL.md", words.by_hand("mine", "k1"))
    toy.proposals += [{"action": "patch", "skill": "mine", "edits": [], "examples": ["train-k0"]}]
    stop(toy, lambda name, k: name == "gate")
    hand = words.by_hand("mine", "k1", "k2", text="typed since")
    toy.write("skills/mine/SKILL.md", hand)
    toy.night()
    assert toy.read("skills/mine/SKILL.md") == hand
    assert not toy.events("settled")[0]["accepted"]
    assert [event["score"] for event in toy.events("baseline")] == [0.25, 0.5]


def test_what_was_revoked_before_it_was_settled_stays_away(
    toys: Any, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = toys(iterations=2)
    toy.proposals += [words.made("local", "k0")]

    def killed(*_: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(plans, "record", killed)
        toy.night()
    assert toy.skills() == ["local"]
    revoke(toy.space, "local", "bad")
    toy.night()
    assert toy.skills() == []
    assert "revoked" in toy.events("settled")[0]["reason"]


def moved(toy: Any, split: str) -> None:
    """The first train task becomes one of another split, as it stands."""
    train, other = toy.space.suite / "train.jsonl", toy.space.suite / f"{split}.jsonl"
    first, *rest = train.read_text().splitlines(keepends=True)
    train.write_text("".join(rest))
    other.write_text(other.read_text() + first)


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_log_of_a_rejected_skill_does_not_tell_of_a_task_that_left_train(toy: Any, words: Any, split: str) -> None:
    toy.student = lambda request: "no idea"
    toy.proposals += [words.made("local", "k0")]
    toy.night()
    assert "Question: What is k0" in toy.read("wiki/skill-impact.md")
    moved(toy, split)
    for path in (toy.space.wiki / "patterns").glob("*.md"):
        path.unlink()
    toy.studies += [{"create": [words.page("other", "train-k1")], "log": "again"}]
    toy.propose = lambda request: refuse(request)
    toy.engines = {role: [] for role in toy.engines}
    toy.night()
    shown = toy.prompts("maintainer") + toy.prompts("proposer")
    assert shown
    assert not [prompt for prompt in shown if "What is k0" in prompt or "v-k0" in prompt]


def refuse(request: Any) -> str:
    """Read a trace, twice; then do nothing."""
    lark = request.grammar.lark
    key = next((key for key in ("k1", "k2", "k3") if f"traces/train-{key}" in lark), None)
    step: dict[str, Any] = {"thought": "so", "action": "read_file", "path": f"traces/train-{key}"}
    if "finish" in lark:
        step = {"thought": "so", "action": "finish", "proposal": {"action": "no_action", "reason": "enough"}}
    return json.dumps(step, separators=(",", ":"))


def test_a_long_question_that_left_train_is_found_as_pages_quote_it(toys: Any, words: Any) -> None:
    tasks = {split: [dict(task) for task in lines] for split, lines in words.tasks.items()}
    tasks["train"][0]["prompt"] = "Consider this.\n# Then that. " + "Much is to be said about it. " * 40 + "What is k0"
    toy = toys(tasks)
    toy.night()
    assert "characters left out" in toy.read("wiki/patterns/house-values.md")
    moved(toy, "val")
    with pytest.raises(Problem, match="must stay unseen"):
        toy.night()


def test_a_page_whose_name_is_not_utf_8_is_a_problem(toy: Any) -> None:
    import os

    try:
        (toy.space.wiki / "patterns" / os.fsdecode(b"\xff.md")).write_text("# x\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    with pytest.raises(Problem, match="not UTF-8"):
        toy.night()


def test_an_accept_takes_up_a_skills_folder_that_is_gone(toy: Any, words: Any) -> None:
    shutil.rmtree(toy.space.skills)
    toy.proposals += [words.made("local", "k0")]
    toy.night()
    assert toy.skills() == ["local"]


def test_a_task_that_quotes_examples_becomes_one_example(toys: Any, words: Any) -> None:
    tasks = {split: [dict(task) for task in lines] for split, lines in words.tasks.items()}
    tasks["train"][0]["prompt"] = "Question: one\nAnswer: 1\n\nQuestion: two\nAnswer: 2\n\nQuestion: What is k0"
    toy = toys(tasks)
    toy.proposals += [words.made("local", "k0", "k1")]
    toy.night()
    examples = skills.load(toy.space.skills)["local"].examples()
    assert [example.rsplit("Answer: ", 1)[1] for example in examples] == ["v-k0", "v-k1"]
