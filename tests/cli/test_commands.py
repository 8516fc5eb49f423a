"""The commands a person runs from one evening to the next, through the console entry, on the scripted engine."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, task

from nightschool.engine import select
from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.types import Completion, Usage

SKILL = "---\nname: brief\ndescription: Be brief.\n---\n## Instructions\n- Be brief.\n"


def config(here: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((here / "ws" / "config.json").read_text())
    return record


@pytest.fixture
def brief(place: Path) -> Path:
    """A skill in the workspace."""
    folder = place / "ws" / "skills" / "brief"
    folder.mkdir()
    (folder / "SKILL.md").write_text(SKILL)
    return folder


def test_new_says_what_to_run_next(place: Path, run: Run) -> None:
    made = run("new", "other", "--suite", "style:3")
    assert (made.code, made.out) == (0, "")
    assert made.err == "made other with suite style:3 and model tiny\nnext: nightschool evolve other\n"
    (place / "models.toml").write_text('[roles]\nstudent = "far"\n[models.far]\nsource = "hf:a/b@main"\n')
    assert "next: nightschool models pull far\nnext: nightschool evolve third\n" in run("new", "third").err


def test_new_fits_into_a_project_that_has_files(place: Path, run: Run) -> None:
    project = place / "project"
    project.mkdir()
    (project / "main.py").write_text("")
    (project / ".gitignore").write_text("mine\n")
    assert run("new", "project").code == 0
    assert (project / ".gitignore").read_text() == "mine\n" and (project / "suite" / "suite.toml").is_file()


def test_the_workspace_is_found_from_below(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place / "ws" / "wiki")
    assert json.loads(run("status", "--json").out)["state"] == "new"
    assert "no night has been run yet" in run("status").out


def test_a_flag_wins_over_the_suite_and_is_kept(place: Path, run: Run) -> None:
    assert config(place)["settings"]["min_reads"] == 1
    flags = ("--min-reads", "2", "--set", "pass=4", "--set", "think=true", "--gate", "tie", "--seed", "5")
    assert run("evolve", "ws", *flags, "--set", "gate=strict").code == 0
    kept = config(place)
    assert kept["seed"] == 5
    wanted = {"min_reads": 2, "passing": 4, "think": True, "gate": "tie", "iterations": 1}
    assert {key: kept["settings"][key] for key in wanted} == wanted
    assert json.loads(run("status", "ws", "--json").out)["gate"] == "tie"


def test_the_roles_that_take_part_are_the_ones_that_are_checked(place: Path, run: Run) -> None:
    (place / "models.toml").write_text(
        (place / "models.toml").read_text().replace("[models", 'maintainer = "far"\n\n[models', 1)
        + '[models.far]\nsource = "hf:a/b@main"\n'
    )
    assert "far is not on this machine yet" in run("evolve", "ws").err
    assert run("eval", "ws", "--split", "val", "--model", "tiny").code == 0
    assert run("evolve", "ws", "--control", "random").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_the_night_and_the_same_command_goes_on(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    step, steps = ScriptedEngine.step, iter(range(1000))

    def pressed(engine: ScriptedEngine) -> Any:
        if next(steps) == 1:
            os.kill(os.getpid(), number)
        return step(engine)

    with monkeypatch.context() as patched:
        patched.setattr(ScriptedEngine, "step", pressed)
        ran = run("evolve", "ws")
    assert (ran.code, ran.out) == (130, "")
    assert "stopping after this step; Ctrl-C again stops at once\n" in ran.err
    assert ran.err.endswith("stopped; go on with: nightschool evolve ws\n")
    assert "stopped; go on with: nightschool evolve ws" in run("status", "ws").out
    went_on = run("evolve", "ws")
    assert went_on.code == 0 and "resuming at iteration" in went_on.err
    assert signal.getsignal(number) is before


def test_a_night_on_a_slow_backend_says_so(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "slow", lambda backend: f"{backend} is slow here")
    assert "loading tiny with scripted: asked for\nscripted is slow here\n" in run("evolve", "ws").err


def test_traces_are_listed_and_shown(place: Path, run: Run) -> None:
    assert run("trace", "ws").err == "there are no traces yet\n"
    run("evolve", "ws")
    listed = run("trace", "ws").out.splitlines()
    assert "iter-001/train/train-0" in listed and listed == json.loads(run("trace", "ws", "--json").out)
    shown = run("trace", "iter-001/train/train-0", "ws").out
    assert "[system]\nAnswer.\n" in shown and "[user]\ntrain: what is k0?\n" in shown and "[expected]\nv0\n" in shown
    assert json.loads(run("trace", "iter-001/train/train-0", "ws", "--json").out)["expected"] == "v0"


def test_eval_scores_a_split_with_other_skills_and_writes_nothing(place: Path, run: Run, brief: Path) -> None:
    before = sorted((place / "ws").rglob("*"))
    failed = "".join(f"  val-{n}: 0.000, the answer is empty\n" for n in range(2))
    assert run("eval", "ws", "--split", "val").out == f"val: 0.000 over 2 tasks with brief\n{failed}"
    told = run("eval", "ws", "--split", "val", "--skills", "none").out
    assert told == f"val: 0.000 over 2 tasks with no skills\n{failed}"
    record = json.loads(run("eval", "ws", "--skills", "ws/skills", "--repeats", "3", "--json").out)
    assert (record["split"], record["repeats"], record["changed"]) == ("test", [0.0, 0.0, 0.0], 0)
    reason = "the answer is empty"
    assert record["failed"] == [{"task": f"test-{n}", "score": 0.0, "reason": reason} for n in range(2)]
    assert "noise floor: 0 of 2" in run("eval", "ws", "--repeats", "2").out
    assert sorted((place / "ws").rglob("*")) == before


def test_eval_names_no_task_that_passes_and_shortens_a_reason(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"kind": "contains", "text": "x", "reason": "w" * 300}
    (place / "ws" / "suite" / "val.jsonl").write_text(
        task("val", 0) + task("val", 1, grader={"kind": "checks", "expected": "x", "checks": [long]})
    )
    monkeypatch.setattr(ScriptedEngine, "_answer", lambda engine, request: Completion("v0", "stop", Usage()))
    first, second = run("eval", "ws", "--split", "val").out.splitlines()
    assert first == "val: 0.500 over 2 tasks with no skills"
    assert second.startswith("  val-1: 0.000, w") and second.endswith("…") and len(second) < 130


def test_a_skill_is_shown_checked_and_revoked(place: Path, run: Run, brief: Path) -> None:
    assert run("skills", "show", "brief", "ws").out == SKILL
    assert json.loads(run("skills", "list", "ws", "--json").out)[0]["description"] == "Be brief."
    for folder in ("ws", "ws/skills", "ws/skills/brief"):
        checked = run("skills", "validate", folder)
        assert (checked.code, checked.out, checked.err) == (0, "", "1 skills, 0 faults\n")
    revoked = run("skills", "revoke", "brief", "ws", "--reason", "too brief")
    assert revoked.code == 0 and not brief.exists()
    impact = (place / "ws" / "wiki" / "skill-impact.md").read_text()
    assert "| revoked | brief" in impact and "too brief" in impact and "Be brief." in impact
    assert run("skills", "list", "ws").err == "no skill has been accepted yet\n"


def test_validate_exits_with_1_when_a_rule_is_broken(place: Path, run: Run, brief: Path) -> None:
    (brief / "SKILL.md").write_text(SKILL.replace("name: brief", "name: terse"))
    ran = run("skills", "validate", "ws")
    assert ran.code == 1 and "name 'terse' is not the folder's name 'brief'" in ran.out
    assert json.loads(run("skills", "validate", "ws", "--json").out)[0]["file"].endswith("brief/SKILL.md")


def test_help_and_version(run: Run) -> None:
    assert run().out == run("--help").out == run("-h").out
    assert run("skills").code == 0 and run("skills").out.startswith("Usage: nightschool skills")
    assert run("--version").out.startswith("nightschool ")
