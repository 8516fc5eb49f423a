"""`nightschool sek`, the life cycle: what is printed, what is JSON, and how mistakes are told."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from nightschool.sek import inbox
from nightschool.sek.tree import Tree

TAG = "STRIPE-RETRIES-001"
SAID = ("--expected", "once", "--got", "twice", "--where", "hooks.py")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Tree:
    monkeypatch.delenv("NIGHTSCHOOL_SESSION", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run("sek", "init", "--agent", "generic").code == 0
    return Tree(tmp_path)


def promoted(run: Any) -> None:
    for session in ("one", "two"):
        assert run("sek", "register", "stripe retries", *SAID, "--session", session).code == 0


def test_register_and_promote(tree: Tree, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTSCHOOL_SESSION", "one")
    done = run("sek", "register", "stripe retries", "--kind", "workaround", *SAID)
    assert (done.code, done.out, done.err) == (0, "Registered: stripe retries (workaround)\n", "")
    done = run("sek", "promote")
    assert done.out.startswith("Not promoted yet: stripe retries: 1 entry from 1 session;")
    done = run("sek", "register", "Stripe retries", *SAID, "--session", "two")
    assert done.out.splitlines()[-1] == f"📚 Promoted: [{TAG}] -> wiki/rules/stripe-retries.md"
    done = run("sek", "promote")
    assert (done.out, done.err) == ("", "nothing to do\n")


def test_a_tree_is_found_from_below_and_from_afar(tree: Tree, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.root / "wiki" / "rules")
    assert run("sek", "register", "a", "--got", "b").code == 0
    monkeypatch.chdir("/")
    assert run("sek", "register", "c", "--got", "d", "--dir", str(tree.root)).code == 0
    assert [entry.topic for entry in inbox.parse(Tree(tree.root).read("memory/inbox.md"))] == ["a", "c"]
    done = run("sek", "status")
    assert done.code == 2 and "no SEK tree" in done.err


def test_everything_is_json_too(tree: Tree, run: Any) -> None:
    done = json.loads(run("sek", "register", "stripe retries", *SAID, "--session", "one", "--json").out)
    assert done["schema"] == 1 and done["messages"] == ["Registered: stripe retries (unexpected)"]
    assert done["events"][0]["event"] == "registered"
    done = json.loads(run("sek", "register", "stripe retries", *SAID, "--session", "two", "--json").out)
    assert [event["event"] for event in done["events"]] == ["registered", "promoted"]
    status = json.loads(run("sek", "status", "--json").out)
    assert status["rules"][0]["tag"] == TAG and status["rules"][0]["new"] and status["tax"]["budget"] == 400
    assert json.loads(run("sek", "expire", "--json").out) == {"schema": 1, "messages": [], "events": []}
    assert json.loads(run("sek", "promote", "--json").out)["messages"] == []
    life = json.loads(run("sek", "history", TAG, "--json").out)
    assert life["stage"] == "validated" and [event["event"] for event in life["events"]][-1] == "promoted"
    gone = json.loads(run("sek", "revoke", TAG, "--reason", "wrong", "--json").out)
    assert gone["events"][0]["texts"][0]["text"].startswith(f"## [{TAG}]")


def test_status_and_history_are_readable(tree: Tree, run: Any) -> None:
    promoted(run)
    run("sek", "register", "cache", "--kind", "correction", "--got", "stale")
    shown = run("sek", "status").out
    assert "tax: L0 " in shown and "inbox: 1 of 20 drafts" in shown and "rules: 0 core, 1 validated, 0 revoked" in shown
    assert "cache" in shown and f"{TAG}  validated 🆕" in shown
    run("sek", "revoke", f"[{TAG}]", "--reason", "my proxy did it")
    told = run("sek", "history", TAG).out.splitlines()
    assert told[0] == f"[{TAG}] revoked"
    assert [line[22:].split(":")[0] for line in told[1:5]] == ["registered", "registered", "promoted", "revoked"]
    assert "my proxy did it" in told[4] and f"    ## [{TAG}] stripe retries" in told


def test_expire_tells_what_goes(tree: Tree, run: Any) -> None:
    old = (date.today() - timedelta(days=20)).isoformat()
    (tree.root / "memory" / "inbox.md").write_text(f"- [{old}] long ago · s1\n  what it was\n")
    assert run("sek", "expire").out == "Expired after 14 days: long ago\n"
    assert run("sek", "expire").err == "no draft is too old\n"


@pytest.mark.parametrize(
    ("arguments", "what", "advice"),
    [
        (("register", "a"), "an entry needs what was expected or what came", "give --expected and --got"),
        (
            ("register", "a", "--got", "b", "--kind", "corection"),
            "'corection' is no kind",
            "did you mean 'correction'?",
        ),
        (("register", "##", "--got", "b"), "an entry needs a topic", "name in a few words"),
        (("register", "a", "--got", "b" * 700), "'got' is 700 characters long", "say it shorter"),
        (("promote", "nothing"), "no draft has the topic 'nothing'", "known: none"),
        (("promote", "--tag", "A-1"), "a tag without a topic", "name the topic"),
        (("revoke", "NO-1"), "no rule has the tag [NO-1]", "known: none"),
        (("revoke", "no"), "'no' is no tag", "API-RATE-001"),
        (("history", "NO-1"), "no rule ever had the tag [NO-1]", "known: none"),
        (("core", "NO-1"), "no rule has the tag [NO-1]", "known: none"),
    ],
)
def test_mistakes_are_told_in_two_lines(
    tree: Tree, run: Any, arguments: tuple[str, ...], what: str, advice: str
) -> None:
    before = {path: path.read_bytes() for path in tree.root.rglob("*") if path.is_file() and path.name != ".lock"}
    done = run("sek", *arguments)
    assert done.code == 2 and done.err.count("\n") == 2
    assert what in done.err.splitlines()[0] and advice in done.err.splitlines()[1]
    assert before == {p: p.read_bytes() for p in tree.root.rglob("*") if p.is_file() and p.name != ".lock"}


def test_two_processes_register_at_once(tree: Tree) -> None:
    def start(n: int) -> subprocess.Popen[bytes]:
        command = [
            "-m",
            "nightschool.cli",
            "sek",
            "register",
            f"topic {'abcd'[n] * 4}",
            "--got",
            f"g{n}",
            "--session",
            "s",
        ]
        return subprocess.Popen([sys.executable, *command], cwd=tree.root, stdout=subprocess.DEVNULL)

    started = [start(n) for n in range(4)]
    assert [process.wait() for process in started] == [0, 0, 0, 0]
    entries = inbox.parse(Tree(tree.root).read("memory/inbox.md"))
    assert sorted(entry.topic for entry in entries) == ["topic aaaa", "topic bbbb", "topic cccc", "topic dddd"]


@pytest.mark.parametrize("command", ["register", "core", "status", "mcp"])
def test_help_loads_nothing_of_weight(command: str) -> None:
    arguments = [sys.executable, "-X", "importtime", "-m", "nightschool.cli", "sek", command, "--help"]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    assert not loaded & {"mcp", "transformers", "torch", "tokenizers", "yaml", "snowballstemmer", "rich"}
