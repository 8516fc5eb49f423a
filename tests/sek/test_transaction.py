"""Several files and the log, changed as one; and the logs themselves."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nightschool.disk.errors import Problem
from nightschool.sek import inbox, record, transaction
from nightschool.sek.record import Event, Use
from nightschool.sek.transaction import Changed, commit, events_of, recover, writing
from nightschool.sek.tree import LOG, PENDING, USAGE, Tree

Plant = Callable[..., Tree]
TIME = "2026-01-31T02:10:09Z"
PAGE = "wiki/rules/frontend.md"


def pending(tree: Tree, files: dict[str, bytes | None], before: dict[str, str | None] | None = None) -> None:
    """What a process leaves that is killed just after its commit."""
    coded = {path: None if raw is None else base64.b64encode(raw).decode() for path, raw in files.items()}
    shas = {
        path: transaction._sha((tree.root / path).read_bytes() if (tree.root / path).exists() else None)
        for path in files
    }
    told = {"schema": 1, "id": "cafe", "files": coded, "before": before or shas}
    event = {"schema": 1, "id": "cafe-0", "event": "promoted", "time": TIME, "tag": "X-1"}
    (tree.root / "memory").mkdir(exist_ok=True)
    (tree.root / PENDING).write_text(json.dumps({**told, "events": [event]}))


def test_files_and_events_are_committed(plant: Plant) -> None:
    tree = plant()
    with writing(tree) as fresh:
        done = commit(fresh, {PAGE: b"new\r\n", "wiki/rules/a.md": b"\xff", "wiki/_index.md": None}, [Event("x", TIME)])
    assert (tree.root / PAGE).read_bytes() == b"new\r\n" and (tree.root / "wiki/rules/a.md").read_bytes() == b"\xff"
    assert not (tree.root / "wiki/_index.md").exists() and not (tree.root / PENDING).exists()
    assert events_of(tree) == done and done[0].id.endswith("-0")


def test_readers_see_what_is_committed_and_the_next_writer_carries_it_out(plant: Plant) -> None:
    tree = plant()
    pending(tree, {PAGE: b"after\n", "wiki/rules/database.md": None})
    assert Tree(tree.root).read(PAGE) == "after\n" and "wiki/rules/database.md" not in Tree(tree.root).pages()
    assert [event.tag for event in events_of(tree)] == ["X-1"] and not (tree.root / LOG).exists()
    with writing(tree) as fresh:
        assert fresh.read(PAGE) == "after\n"
    assert (tree.root / PAGE).read_text() == "after\n" and not (tree.root / "wiki/rules/database.md").exists()
    assert [event.tag for event in events_of(tree)] == ["X-1"] and not (tree.root / PENDING).exists()
    assert not recover(tree)


def test_events_are_appended_once(plant: Plant) -> None:
    tree = plant()
    for _ in range(2):
        pending(tree, {PAGE: b"after\n"})
        with writing(tree):
            pass
    assert len(events_of(tree)) == 1


def test_what_a_person_wrote_in_between_is_logged_in_full(plant: Plant) -> None:
    tree = plant()
    pending(tree, {PAGE: b"after\n"})
    (tree.root / PAGE).write_text("by hand\n")
    with writing(tree):
        pass
    displaced, promoted = events_of(tree)
    assert (displaced.kind, displaced.data["path"], displaced.data["text"]) == ("displaced", PAGE, "by hand\n")
    assert promoted.tag == "X-1" and (tree.root / PAGE).read_text() == "after\n"


def test_a_file_that_changes_meanwhile_stops_the_commit(plant: Plant) -> None:
    tree = plant()
    with writing(tree) as fresh, pytest.raises(Changed, match="was changed in this moment"):
        commit(fresh, {PAGE: b"x"}, [Event("x", TIME)], seen={PAGE: b"what I read"})
    assert not (tree.root / PENDING).exists() and events_of(tree) == []


@pytest.mark.parametrize("path", ["../out.md", "/etc/out.md", "wiki/../../out.md", "a\nb.md"])
def test_no_path_leads_out(plant: Plant, path: str) -> None:
    tree = plant()
    with writing(tree) as fresh, pytest.raises(Problem, match="is no path inside the tree"):
        commit(fresh, {path: b"x"}, [])
    pending(tree, {PAGE: b"x"})
    told = json.loads((tree.root / PENDING).read_text().replace(PAGE, json.dumps(path)[1:-1]))
    (tree.root / PENDING).write_text(json.dumps(told))
    with pytest.raises(Problem, match="is no path inside the tree"), writing(tree):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"schema": 2, "id": "a", "files": {}, "before": {}, "events": []}',
        '{"schema": 1, "id": "a", "files": {"wiki/a.md": 1}, "before": {"wiki/a.md": null}, "events": []}',
        '{"schema": 1, "id": "a", "files": {"wiki/a.md": "%%"}, "before": {"wiki/a.md": null}, "events": []}',
        '{"schema": 1, "id": "a", "files": {}, "before": {}, "events": [{}]}',
    ],
)
def test_a_broken_record_is_told_and_nothing_done(plant: Plant, text: str) -> None:
    tree = plant()
    (tree.root / "memory").mkdir()
    (tree.root / PENDING).write_text(text)
    with pytest.raises(Problem, match=r"not an unfinished change|schema"), writing(tree):
        raise AssertionError("not reached")


def test_two_processes_lose_nothing(plant: Plant) -> None:
    tree = plant()
    code = (
        "import sys; from pathlib import Path; from nightschool.sek import commands; from nightschool.sek.tree import Tree\n"
        "for n in range(6):\n"
        "    topic = f'{sys.argv[2]} {\"abcdefgh\"[n] * 5}'\n"
        "    commands.register(Tree(Path(sys.argv[1])), topic, 'unexpected', sys.argv[2], 'e', topic, '')\n"
    )
    names = ("left", "right", "middle")
    started = [subprocess.Popen([sys.executable, "-c", code, str(tree.root), name]) for name in names]
    assert [process.wait() for process in started] == [0, 0, 0]
    entries = inbox.parse(Tree(tree.root).read("memory/inbox.md"))
    assert sorted({entry.topic for entry in entries}) == sorted(
        f"{name} {letter * 5}" for name in names for letter in "abcdef"
    )
    assert len(entries) == 18 and len(events_of(tree)) == 18


def test_a_writer_that_hangs_is_named(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = plant()
    monkeypatch.setattr(transaction, "PATIENCE", 0.0)
    with writing(tree), pytest.raises(Problem, match="is held by pid"), writing(tree):
        pass


def test_the_logs_are_read_without_their_torn_end(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    whole = json.dumps(Event("x", TIME, "A-1", {"entry": "e"}, "1").record()) + "\n"
    log.write_text(whole + whole[:20])
    assert record.read_log(log) == [Event("x", TIME, "A-1", {"entry": "e"}, "1")]
    assert log.read_text() == whole + whole[:20]
    record.add_usage(tmp_path / "usage.jsonl", [Use("A-1", "s", TIME)])
    assert record.read_usage(tmp_path / "usage.jsonl") == [Use("A-1", "s", TIME)]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nonsense", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema": 9}', "schema 9, this version reads 1"),
        ('{"schema": 1, "id": "1", "event": "x"}', "a field is missing"),
        ('{"schema": 1, "id": "1", "event": "x", "time": "yesterday"}', "'yesterday' is no time"),
        ('{"schema": 1, "id": "1", "event": "x", "time": "2026-01-31T02:10:09Z", "tag": 7}', "a field is missing"),
    ],
)
def test_a_broken_log_is_told_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(Event("x", TIME, id="1").record()) + "\n" + line + "\n")
    with pytest.raises(Problem, match=f"{log.name}:2: {what}"):
        record.read_log(log)


def test_times() -> None:
    moment = datetime(2026, 1, 31, 2, 10, 9, tzinfo=UTC)
    assert record.stamp(moment) == TIME and record.moment(TIME) == moment
    assert USAGE.endswith("usage.jsonl")
