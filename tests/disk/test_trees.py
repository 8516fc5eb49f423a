"""The swap of folders, their hash, and the sweep, killed anywhere."""

import errno
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.disk.files import replace_tree, sweep, tree_hash, write_atomic

OLD = {"a/SKILL.md": "old a", "b/SKILL.md": "old b"}
NEW = {"b/SKILL.md": "new b", "c/files/x.txt": "new c"}


def whole(files: dict[str, str]) -> dict[str, str | None]:
    """A snapshot of just these files."""
    folders = {parent.as_posix(): None for name in files for parent in Path(name).parents if parent.name}
    return {**folders, **files}


def test_the_new_folder_takes_the_place_of_the_old(tmp_path: Path, plant: Any, snapshot: Any) -> None:
    replace_tree(plant(tmp_path / "candidate", NEW), plant(tmp_path / "skills", OLD))
    assert snapshot(tmp_path / "skills") == whole(NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["skills"]


def test_there_need_be_no_old_folder(tmp_path: Path, plant: Any, snapshot: Any) -> None:
    replace_tree(plant(tmp_path / "candidate", NEW), tmp_path / "made/skills")
    assert snapshot(tmp_path / "made/skills") == whole(NEW)


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("old", [None, OLD])
def test_a_killed_swap_is_finished_by_the_next_call(
    tmp_path: Path, process: Any, plant: Any, snapshot: Any, old: dict[str, str] | None, swept: bool
) -> None:
    for number, kill in enumerate(process.kills()):
        home = plant(tmp_path / str(number), {})
        candidate, skills = plant(home / "raw/candidate", NEW), home / "skills"
        if old:
            plant(skills, old)
        with kill:
            replace_tree(candidate, skills)
        if swept:
            sweep(home)
            assert snapshot(skills) in (whole(NEW), whole(old or {}))
        elif skills.exists():
            assert snapshot(skills) in (whole(NEW), whole(old or {}))
        replace_tree(candidate, skills)
        assert snapshot(home) == {"raw": None, "skills": None} | {
            f"skills/{name}": text for name, text in whole(NEW).items()
        }
        replace_tree(candidate, skills)
    assert number >= 6  # fsyncs, one rename or two, fsyncs


def test_a_second_kill_in_the_recovery_changes_nothing(
    tmp_path: Path, process: Any, plant: Any, snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # hundreds of rounds
    for first, kill in enumerate(process.kills()):
        scene = plant(tmp_path / f"scene-{first}", {})
        replace = (plant(scene / "candidate", NEW), plant(scene / "skills", OLD))
        with kill:
            replace_tree(*replace)
        for second, again in enumerate(process.kills()):
            home = tmp_path / f"{first}-{second}"
            shutil.copytree(scene, home)
            with again:
                replace_tree(home / "candidate", home / "skills")
            replace_tree(home / "candidate", home / "skills")
            assert snapshot(home) == {"skills": None} | {f"skills/{name}": text for name, text in whole(NEW).items()}


def test_the_next_swap_after_a_kill_and_none_between(tmp_path: Path, process: Any, plant: Any, snapshot: Any) -> None:
    for number, kill in enumerate(process.kills()):
        home = tmp_path / str(number)
        with_kill = (plant(home / "candidate", NEW), plant(home / "skills", OLD))
        with kill:
            replace_tree(*with_kill)
        replace_tree(plant(home / "other", {"d": "other"}), home / "skills")
        assert snapshot(home / "skills") == {"d": "other"}
        assert not list(home.glob(".*"))


def test_a_folder_half_cleared_away_never_comes_back(tmp_path: Path, process: Any, plant: Any, snapshot: Any) -> None:
    for number, kill in enumerate(process.kills()):
        home = tmp_path / str(number)
        candidate, skills = plant(home / "candidate", NEW), plant(home / "skills", OLD)
        with kill:
            replace_tree(candidate, skills)
        if skills.exists():
            shutil.rmtree(skills)
        sweep(home)
        assert snapshot(skills) in ({}, whole(OLD))


def test_a_full_disk_leaves_the_old_folder_or_the_new(tmp_path: Path, process: Any, plant: Any, snapshot: Any) -> None:
    for number, failure in enumerate(process.failures(errno.ENOSPC)):
        home = tmp_path / str(number)
        candidate, skills = plant(home / "candidate", NEW), plant(home / "skills", OLD)
        with failure:
            replace_tree(candidate, skills)
        assert isinstance(failure.problem, MachineProblem) == failure.happened
        assert snapshot(skills) == (whole(NEW) if not candidate.exists() else whole(OLD))


def test_folders_that_cannot_be_swapped(tmp_path: Path, plant: Any) -> None:
    with pytest.raises(Problem, match="neither"):
        replace_tree(tmp_path / "candidate", tmp_path / "skills")
    plant(tmp_path / "skills", OLD)
    for inner, outer in itertools.permutations([tmp_path / "skills", tmp_path / "skills/a"]):
        with pytest.raises(ValueError, match="overlap"):
            replace_tree(inner, outer)
    with pytest.raises(Problem):
        replace_tree(plant(tmp_path / "candidate", NEW), tmp_path / "skills/a/SKILL.md")
    assert (tmp_path / "skills/a/SKILL.md").read_text() == "old a"


def test_tree_hash_sees_names_and_contents_and_nothing_else(tmp_path: Path, plant: Any) -> None:
    nothing = tree_hash(tmp_path / "missing")
    assert tree_hash(plant(tmp_path / "empty", {})) == nothing
    one = tree_hash(plant(tmp_path / "one", {"b": "x", "a/c": "y"}))
    assert tree_hash(plant(tmp_path / "two", {"a/c": "y", "b": "x"})) == one
    plant(tmp_path / "two", {f".{'0' * 16}.tmp": "half"})
    assert tree_hash(tmp_path / "two") == one
    different = [
        {"b": "x", "a/c": "z"},
        {"b": "x", "a/d": "y"},
        {"b": "x", "ac": "y"},
        {"b": "x"},
        {"bx": "", "a/c": "y"},
    ]
    hashes = [tree_hash(plant(tmp_path / str(number), files)) for number, files in enumerate(different)]
    assert len({nothing, one, *hashes}) == len(different) + 2


def test_sweep_removes_what_is_ours_and_touches_nothing_else(tmp_path: Path, plant: Any, snapshot: Any) -> None:
    kept = {
        ".notes.tmp": "a person's",
        "x.tmp": "too",
        ".git/" + "." + "0" * 16 + ".tmp": "hidden",
        "wiki/a.md": "a",
    }
    plant(tmp_path, kept)
    plant(
        tmp_path,
        {f"wiki/.{'1' * 16}.tmp": "half", ".skills.aside.tmp/a/SKILL.md": "old", "b/.c.trash.tmp/d": ""},
    )
    plant(tmp_path, {f".skills.aside.tmp/.{'2' * 16}.tmp": "half"})
    assert len(sweep(tmp_path)) == 4
    left = {name: text for name, text in snapshot(tmp_path).items() if text is not None}
    assert left == {**kept, "skills/a/SKILL.md": "old"}
    assert sweep(tmp_path) == []
    assert sweep(tmp_path / "missing") == []


def test_sweep_clears_what_two_killed_swaps_left(tmp_path: Path, plant: Any, snapshot: Any) -> None:
    plant(tmp_path, {"skills/a": "new", ".skills.aside.tmp/a": "old", ".skills.trash.tmp/a": "older"})
    assert sweep(tmp_path)
    assert snapshot(tmp_path) == {"skills": None, "skills/a": "new"}


def test_links_to_nowhere_are_no_files(tmp_path: Path, plant: Any) -> None:
    candidate, skills = plant(tmp_path / "candidate", NEW), plant(tmp_path / "skills", OLD)
    before = tree_hash(candidate)
    (candidate / ".#SKILL.md").symlink_to("user@host.123")
    os.mkfifo(candidate / "pipe")
    assert tree_hash(candidate) == before
    replace_tree(candidate, skills)
    assert tree_hash(skills) == before


def test_sweep_leaves_the_file_of_a_living_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, swept = os.fsync, []

    def fsync(fd: int) -> None:
        swept.append(sweep(tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomic(tmp_path / "page.md", "new")
    assert swept == [[], []]
    assert (tmp_path / "page.md").read_text() == "new"
