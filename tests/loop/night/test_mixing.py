"""Controls, leaks and lost folders: what a night refuses before it measures something else than it says."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop.nights import resolve


def test_a_control_is_asked_for_anew_each_night(finished: Any) -> None:
    standing = finished.space.config()
    finished.space.save(standing.changed(control="nowiki"))
    assert resolve(finished.space, {}).control == "none"
    assert resolve(finished.space, {"control": "placebo"}).control == "placebo"


@pytest.mark.parametrize("control", ["random", "shuffled", "placebo"])
def test_a_control_does_not_mix_with_what_was_learned(finished: Any, control: str) -> None:
    with pytest.raises(Problem, match=f"control {control} would mix"):
        finished.night(control=control)


def test_a_task_that_moved_from_train_to_val_is_refused_while_a_skill_tells_of_it(finished: Any) -> None:
    train, val = (finished.space.suite / f"{split}.jsonl" for split in ("train", "val"))
    first, *rest = train.read_text().splitlines()
    shown = next(
        line for line in (first, *rest) if json.loads(line)["prompt"] in finished.read("skills/helps/SKILL.md")
    )
    task = json.loads(shown)
    train.write_text("".join(line + "\n" for line in (first, *rest) if line != shown))
    val.write_text(val.read_text() + json.dumps(task) + "\n")
    with pytest.raises(Problem, match="must stay unseen"):
        finished.night()


def test_lost_first_skills_are_no_bare_model(finished: Any) -> None:
    finished.write("skills/helps/PURPOSE.md", "edited\n")
    with finished.opened() as night:
        night.baseline()
        shutil.rmtree(finished.space.iteration(night.first) / "skills")
        with pytest.raises(Problem, match="no longer holds the skills"):
            night.test()
