"""`nightschool wiki`: what is printed, what is JSON, exit codes, and a real small model that reads and answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.types import EngineError
from nightschool.sek.tree import Tree

GUIDE = """\
# The harbour

Ships longer than 90 metres wait for the pilot boat at buoy Marta.

## Fees

A berth costs 12 florins a night.
"""


@pytest.fixture
def here(place: Path, run: Any) -> Path:
    """A tree in the place of `tiny`, whose scripted backend gives the shortest reply, and a source."""
    assert run("sek", "init", "--agent", "generic").code == 0
    (place / "docs").mkdir()
    (place / "docs/guide.md").write_text(GUIDE)
    return place


def test_ingest_query_and_lint(here: Path, run: Any) -> None:
    done = run("wiki", "ingest", "docs", "--backend", "scripted")
    assert done.code == 0, done.err
    assert re.fullmatch(r"written  (wiki/\w+/\S+\.md)  from guide\.md:1-7\n", done.out)
    assert done.err.endswith("pages written: 1; sources read: 1, ingested before: 0\n")
    again = run("wiki", "ingest", "docs/guide.md", "--backend", "scripted")
    assert (again.code, again.out) == (0, "")
    assert again.err == "pages written: 0; sources read: 0, ingested before: 1\n"
    assert run("wiki", "lint").code == 0
    asked = run("wiki", "query", "who waits for the pilot boat?", "--backend", "scripted")
    assert asked.code == 1 and asked.out == ""
    assert re.search(r"not in the wiki, by wiki/\S+\n\d+ tokens of prompt, \d+ of reply, by tiny\n$", asked.err)


def test_everything_is_json_too(here: Path, run: Any) -> None:
    (here / "docs/bad.bin").write_bytes(b"\xff")
    done = run("wiki", "ingest", "docs", "--backend", "scripted", "--json")
    told = json.loads(done.out)
    assert done.code == 2 and told["schema"] == 1
    assert [page["source"] for page in told["pages"]] == ["guide.md"]
    assert [left["what"] for left in told["left_out"]] == ["docs/bad.bin:1: not UTF-8"]
    asked = json.loads(run("wiki", "query", "who waits for the pilot boat?", "--backend", "scripted", "--json").out)
    assert asked["answer"] is None and asked["model"] == "tiny" and asked["usage"]["generated_tokens"] > 0
    assert asked["pages"] == [told["pages"][0]["path"]] and asked["citations"] == []
    assert json.loads(run("wiki", "lint", "--json").out)["findings"] == []


def test_what_cannot_be_read_is_named_and_the_rest_is_done(here: Path, run: Any) -> None:
    (here / "docs/bad.bin").write_bytes(b"\xff")
    (here / "docs/empty.md").write_text("")
    done = run("wiki", "ingest", "docs", "--backend", "scripted")
    assert done.code == 2 and done.out.startswith("written  wiki/")
    assert "left out: docs/bad.bin:1: not UTF-8\nleft out: docs/empty.md is empty\n" in done.err
    assert "error: 2 files were left out, as told above; the rest is done\n" in done.err
    gone = run("wiki", "ingest", "docs/nothing.md", "--backend", "scripted")
    assert gone.code == 2 and "docs/nothing.md: no such file" in gone.err


def test_a_question_that_no_page_fits_loads_no_model(here: Path, run: Any) -> None:
    asked = run("wiki", "query", "zebra giraffe", "--backend", "scripted")
    assert (asked.code, asked.out, asked.err) == (1, "", "no page fits the question: no model was asked\n")
    told = json.loads(run("wiki", "query", "zebra giraffe", "--json").out)
    assert told == {
        "schema": 1,
        "question": "zebra giraffe",
        "answer": None,
        "citations": [],
        "pages": [],
        "model": None,
        "usage": None,
    }


def test_a_broken_thread_fails_lint(here: Path, run: Any) -> None:
    assert run("wiki", "ingest", "docs", "--backend", "scripted").code == 0
    for copy in (here / "raw/sources").iterdir():
        copy.write_text("changed\n")
    done = run("wiki", "lint")
    assert done.code == 1 and "[source-changed]" in done.out and "[quote]" in done.out
    assert run("sek", "lint").code == 0


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            EngineError("out of memory", "close something"),
            3,
            "0 pages are kept; the same command goes on\nerror: out of memory\n",
        ),
        (KeyboardInterrupt(), 130, "stopped: 0 pages are kept; the same command goes on\n"),
    ],
)
def test_what_stops_an_ingest_leaves_nothing_half(
    here: Path, run: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, told: str
) -> None:
    def step(self: ScriptedEngine) -> Any:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(ScriptedEngine, "step", step)
        done = run("wiki", "ingest", "docs", "--backend", "scripted")
    assert done.code == code and told in done.err
    assert not (here / "raw").exists()
    assert run("wiki", "ingest", "docs", "--backend", "scripted").code == 0


@pytest.mark.model
def test_a_real_model_reads_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("sek", "init", "--agent", "generic").code == 0
    (tmp_path / "guide.md").write_text(GUIDE)
    done = run("wiki", "ingest", "guide.md", "--json")
    assert done.code == 0, done.err
    (page,) = json.loads(done.out)["pages"]
    tree = Tree(tmp_path)
    assert page["path"] in tree.pages() and tree.routing().triggers[-1].load == (page["path"],)
    assert json.loads(run("wiki", "lint", "--json").out)["findings"] == []
    asked = run("wiki", "query", "How many florins does a berth cost?", "--json")
    told = json.loads(asked.out)
    assert asked.code == (1 if told["answer"] is None else 0), asked.err
    assert bool(told["citations"]) == (told["answer"] is not None)
    for each in told["citations"]:
        line = tree.read(each["path"]).split("\n")[each["line"] - 1]
        assert line and each["text"].startswith(" ".join(line.split()))
    assert told["usage"]["prompt_tokens"] > 0


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_keeps_the_sources_of_a_workspace(here: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "ws"], check=True)
    paths = ["raw/sources/guide.md", "raw/iter-001/train/a.json"]
    told = subprocess.run(["git", "-C", "ws", "check-ignore", *paths], capture_output=True, text=True)
    assert told.stdout == "raw/iter-001/train/a.json\n"
