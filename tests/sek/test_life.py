"""Whole lives of knowledge, on a clock that is turned by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.sek import bootstrap, commands, core, inbox, rules, views
from nightschool.sek.bootstrap import render
from nightschool.sek.routing import Routing, rendered
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import Tree

TAG = "STRIPE-WEBHOOK-001"
PAGE = "wiki/rules/stripe-webhook-retries.md"


class Clock:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 31, 2, 10, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def turn(self, **delta: int) -> None:
        self.at += timedelta(**delta)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "wiki" / "rules").mkdir(parents=True)
    (tmp_path / "wiki" / "_routing.md").write_text(rendered(Routing()))
    (tmp_path / "AGENTS.md").write_text(render("I build it.", "rules", "read wiki/_routing.md"))
    return Tree(tmp_path)


def register(
    tree: Tree, now: Clock, session: str, topic: str = "Stripe webhook retries", **said: str
) -> tuple[str, ...]:
    told = {"kind": "unexpected", "expected": "delivered once", "got": "delivered twice", "where": "hooks.py", **said}
    return commands.register(tree, topic, session=session, now=now, **told).messages


def text(tree: Tree, path: str) -> str:
    return Tree(tree.root).read(path)


def kinds(tree: Tree) -> list[str]:
    return [event.kind for event in events_of(tree)]


def answering(monkeypatch: pytest.MonkeyPatch, yes: bool) -> list[str]:
    """What a person at the terminal says, and what was shown."""
    shown: list[str] = []

    def typed(text: str, question: str) -> bool:
        shown.append(f"{text}\n{question}")
        return yes

    monkeypatch.setattr(core, "typed_yes", typed)
    return shown


def test_a_whole_life(tree: Tree, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert register(tree, clock, "one") == ("Registered: Stripe webhook retries (unexpected)",)
    clock.turn(hours=1)
    register(tree, clock, "one", "stripe's webhooks retry")
    assert len(inbox.parse(text(tree, "memory/inbox.md"))) == 2  # one session twice is no pattern

    clock.turn(days=1)
    told = register(tree, clock, "two")
    assert told[-1] == f"📚 Promoted: [{TAG}] -> {PAGE}"
    assert inbox.parse(text(tree, "memory/inbox.md")) == ()
    (rule,) = rules.find(text(tree, PAGE), PAGE)
    assert (rule.tag, rule.title) == (TAG, "Stripe webhook retries")
    assert "Got: delivered twice" in rule.text and "2026-02-01 (session two)" in rule.text
    (trigger,) = Tree(tree.root).routing().triggers
    assert trigger.load == (PAGE,) and trigger.by == "sek" and "Stripe webhook retries" in trigger.keywords
    assert PAGE in text(tree, "wiki/_index.md")

    clock.turn(days=1)
    assert commands.used(tree, [TAG], "three", clock) == (f"🆕 Using recently promoted: [{TAG}]",)
    assert commands.used(tree, [TAG], "three", clock) == ()  # once a session
    for n in range(3):
        clock.turn(days=1)
        assert commands.used(tree, [TAG], f"task {n}", clock) == ()  # announced once only
    assert views.status(tree, clock).suggestions == ()
    clock.turn(days=1)
    (suggestion,) = commands.used(tree, [TAG], "task 3", clock)
    assert suggestion.startswith(f"[{TAG}] applied in 5+ tasks a month: promote to Critical Rules?")
    assert views.status(tree, clock).suggestions == (TAG,)
    clock.turn(minutes=1)
    assert commands.used(tree, [TAG], "task 4", clock) == ()  # it was asked

    before = text(tree, "AGENTS.md")
    clock.turn(minutes=1)
    shown = answering(monkeypatch, yes=False)
    assert core.promote(tree, TAG, now=clock).messages == (f"Nothing was changed: [{TAG}] stays as it is",)
    line = f"- [{TAG}] Stripe webhook retries: delivered twice (not: delivered once)"
    assert f"+{line}" in shown[0] and "tokens of 400" in shown[0]
    assert text(tree, "AGENTS.md") == before
    assert views.status(tree, clock).suggestions == ()  # a refusal sets the count back

    answering(monkeypatch, yes=True)
    clock.turn(days=1)
    core.promote(tree, TAG, now=clock)
    assert text(tree, "AGENTS.md") == before.rstrip("\n") + f"\n\n{line}\n"
    assert views.history(tree, TAG).stage == "core"
    with pytest.raises(Problem, match="is a critical rule already"):
        core.promote(tree, TAG, now=clock)

    with pytest.raises(Problem, match="only a yes that a person types"):
        commands.revoke(tree, TAG, "wrong", clock)
    answering(monkeypatch, yes=False)
    core.revoke(tree, TAG, "wrong", clock)
    assert line in text(tree, "AGENTS.md")
    answering(monkeypatch, yes=True)
    clock.turn(days=1)
    core.revoke(tree, TAG, "it was my proxy", clock)
    assert TAG not in text(tree, "AGENTS.md") and not (tree.root / PAGE).exists()
    assert Tree(tree.root).routing().triggers == () and PAGE not in text(tree, "wiki/_index.md")
    assert "Got: delivered twice" in events_of(tree)[-1].data["texts"][0]["text"]

    register(tree, clock, "eight")
    told = register(tree, clock, "nine")
    assert told[-1] == f"Not promoted: [{TAG}] said so and was revoked on 2026-02-08: it was my proxy"
    assert not (tree.root / PAGE).exists() and len(inbox.parse(text(tree, "memory/inbox.md"))) == 2

    life = views.history(tree, TAG)
    told_kinds = [event.kind for event in life.events]
    assert life.stage == "revoked" and len(life.uses) == 6
    end = ["suggested", "declined", "core", "declined", "revoked", "registered", "registered", "withheld"]
    assert told_kinds == ["registered", "registered", "registered", "promoted", *end]


def test_the_same_topic_three_times_in_one_session_is_promoted(tree: Tree, clock: Clock) -> None:
    for n in range(2):
        assert len(register(tree, clock, "one", got=f"it came {n} times")) == 1
    assert "📚 Promoted" in register(tree, clock, "one")[-1]


def test_undocumented_behaviour_of_an_api_is_a_reference(tree: Tree, clock: Clock) -> None:
    register(tree, clock, "one", "S3 list limit", kind="undocumented-api")
    told = register(tree, clock, "two", "S3 list limit", kind="undocumented-api")
    assert told[-1] == "📚 Promoted: [S3-LIST-001] -> wiki/references/s3-list-limit.md"


def test_what_a_rule_says_is_not_written_twice(tree: Tree, clock: Clock) -> None:
    page = "# Payments\n\n- [PAY-7] Stripe webhook retries: delivered twice, not delivered once.\n"
    (tree.root / "wiki" / "rules" / "payments.md").write_text(page)
    register(tree, clock, "one")
    told = register(tree, clock, "two")
    assert told[-1].startswith("Already known: [PAY-7] in wiki/rules/payments.md:3")
    assert text(tree, "wiki/rules/payments.md") == page and not (tree.root / PAGE).exists()
    assert inbox.parse(text(tree, "memory/inbox.md")) == ()
    life = views.history(tree, "PAY-7")
    assert [event.kind for event in life.events] == ["registered", "registered", "known-already"]


@pytest.mark.parametrize(
    "said",
    ["the key AKIAQ3EGRJ7ZV5K2MWPT was in the header", "ask m.okonkwo@hosting.net", "see [the page](gone.md)"],
)
def test_what_the_linter_refuses_is_not_promoted(said: str, tree: Tree, clock: Clock) -> None:
    register(tree, clock, "one", got=said)
    told = register(tree, clock, "two", got=said)
    assert told[-1].startswith("Not promoted: Stripe webhook retries: ") and "AKIAQ3" not in told[-1]
    assert not (tree.root / PAGE).exists() and len(inbox.parse(text(tree, "memory/inbox.md"))) == 2
    assert kinds(tree) == ["registered", "registered", "withheld"]
    assert commands.tidy(tree, clock) == ()  # it was said once


def test_what_the_linter_only_warns_of_is_promoted(tree: Tree, clock: Clock) -> None:
    for session in "ab":
        told = register(tree, clock, session, got="mail goes to someone@example.com")
    assert told[-1].startswith("📚 Promoted")


def test_a_tag_is_never_given_twice(tree: Tree, clock: Clock) -> None:
    for session in "ab":
        register(tree, clock, session)
    commands.revoke(tree, TAG, "", clock)
    for session in "cd":
        register(tree, clock, session, "stripe webhook", expected="json body", got="a form body, urlencoded")
    (rule,) = rules.every(Tree(tree.root))
    assert rule.tag == "STRIPE-WEBHOOK-002"


def test_a_tag_of_ones_own(tree: Tree, clock: Clock) -> None:
    (tree.root / "memory").mkdir()
    entries = [
        inbox.render(inbox.draft("cache", "workaround", s, "fresh", "stale", "x.py", clock().date())) for s in "ab"
    ]
    (tree.root / "memory" / "inbox.md").write_text("".join(entries))
    assert commands.promote(tree, "cache", "[CACHE-STALE]", clock).messages[-1].startswith("📚 Promoted: [CACHE-STALE]")
    for session in "ab":
        commands.register(tree, "lint", "correction", session if session == "a" else "a", "x", "y", "", clock)
    with pytest.raises(Problem, match=r"'cash' is no tag"):
        commands.promote(tree, "lint", "cash", clock)
    assert "it takes 2 sessions or 3 entries" in commands.promote(tree, "lint", "LINT-1", clock).messages[0]
    with pytest.raises(Problem, match="no draft has the topic 'lunt'"):
        commands.promote(tree, "lunt", None, clock)


@pytest.mark.parametrize(
    "act",
    [
        lambda tree, now: register(tree, now, "x", "something else", got="other"),
        lambda tree, now: commands.tidy(tree, now),
        lambda tree, now: commands.expire(tree, now).messages,
    ],
    ids=["register", "context", "night"],
)
def test_drafts_expire(tree: Tree, clock: Clock, act: Callable[[Tree, Clock], tuple[str, ...]]) -> None:
    register(tree, clock, "one")
    entry = inbox.parse(text(tree, "memory/inbox.md"))[0].text
    clock.turn(days=14)
    assert not any("Expired" in line for line in act(tree, clock))
    clock.turn(days=1)
    assert "Expired after 14 days: Stripe webhook retries" in act(tree, clock)
    (gone,) = [event for event in events_of(tree) if event.kind == "expired"]
    assert gone.data["entry"] == entry
    assert not any(found.topic.startswith("Stripe") for found in inbox.parse(text(tree, "memory/inbox.md")))


def test_a_second_entry_and_a_word_of_a_person_confirm(tree: Tree, clock: Clock) -> None:
    register(tree, clock, "one", "kept by hand", got="x")
    path = tree.root / "memory" / "inbox.md"
    path.write_text(path.read_text().replace("unexpected · one", "unexpected · one · confirmed"))
    register(tree, clock, "one")
    clock.turn(days=10)
    register(tree, clock, "one")
    clock.turn(days=10)
    assert commands.expire(tree, clock).messages == ()
    clock.turn(days=5)
    commands.expire(tree, clock)
    assert [entry.topic for entry in inbox.parse(text(tree, "memory/inbox.md"))] == ["kept by hand"]


def test_the_21st_entry_pushes_out_the_oldest_unconfirmed_one(tree: Tree, clock: Clock) -> None:
    names = ["apple", "pear", "plum", "fig", "kiwi", "lime", "lemon", "melon", "grape", "cherry"]
    topics = [f"{name} {part}" for name in names for part in ("seed", "peel")]
    register(tree, clock, "s", topics[0], got="0")
    register(tree, clock, "s", topics[0], got="zero")  # confirmed: it stays
    clock.turn(days=1)
    for topic in topics[1:-1]:
        register(tree, clock, "s", topic, got=topic)
    entries = inbox.parse(text(tree, "memory/inbox.md"))
    assert len(entries) == 20
    told = register(tree, clock, "s", "the last one", got="21")
    assert told[-1].startswith("Pushed out of the full inbox: apple peel")
    left = inbox.parse(text(tree, "memory/inbox.md"))
    assert len(left) == 20 and left[0].topic == topics[0] and left[-1].topic == "the last one"
    assert events_of(tree)[-1].data["entry"] == entries[2].text


def test_hand_written_entries_are_promoted_and_age(tree: Tree, clock: Clock) -> None:
    (tree.root / "memory").mkdir()
    notes = "# Inbox\n\nMy own words.\n\n- flaky clock test · s1\n  passes alone, fails in CI\n"
    (tree.root / "memory" / "inbox.md").write_text(notes)
    assert commands.tidy(tree, clock) == ()
    assert "- [2026-01-31] flaky clock test · s1\n  passes alone, fails in CI\n" in text(tree, "memory/inbox.md")
    with (tree.root / "memory" / "inbox.md").open("a") as file:
        file.write("* [2026-02-01] Flaky clock tests · correction · s2\n  Expected: green. Got: red\n")
    clock.turn(days=1)
    assert commands.tidy(tree, clock) == ("📚 Promoted: [FLAKY-CLOCK-001] -> wiki/rules/flaky-clock-test.md",)
    assert text(tree, "memory/inbox.md").rstrip() == "# Inbox\n\nMy own words."
    assert "Got: passes alone, fails in CI" in text(tree, "wiki/rules/flaky-clock-test.md")
    assert "Got: red" in text(tree, "wiki/rules/flaky-clock-test.md")


def test_a_quiet_inbox_is_not_touched(tree: Tree, clock: Clock) -> None:
    register(tree, clock, "one")
    before = {path: path.stat().st_mtime_ns for path in tree.root.rglob("*") if path.is_file()}
    assert commands.tidy(tree, clock) == ()
    assert before == {path: path.stat().st_mtime_ns for path in tree.root.rglob("*") if path.is_file()}


def test_a_withheld_topic_is_told_once(tree: Tree, clock: Clock) -> None:
    for session in "ab":
        register(tree, clock, session)
    commands.revoke(tree, TAG, "", clock)
    for session in "ab":
        register(tree, clock, session)
    assert kinds(tree).count("withheld") == 1
    assert commands.tidy(tree, clock) == () and kinds(tree).count("withheld") == 1
    assert commands.promote(tree, None, None, clock).messages[0].startswith("Not promoted")


def test_a_broken_table_does_not_lose_an_entry(tree: Tree, clock: Clock) -> None:
    (tree.root / "wiki" / "_routing.md").write_text("triggers: [\n")
    told = register(tree, clock, "one")
    assert told[0].startswith("Registered") and "wiki/_routing.md:" in told[1]
    assert len(inbox.parse(text(tree, "memory/inbox.md"))) == 1


def test_revoke_leaves_what_else_a_page_says(tree: Tree, clock: Clock) -> None:
    page = "# Payments\r\n\r\n- [PAY-7] Never charge twice.\r\n  Root cause: retries.\r\n- [PAY-8] see [PAY-7]\r\n"
    (tree.root / "wiki" / "rules" / "payments.md").write_bytes(page.encode())
    (tree.root / "wiki" / "rules" / "other.md").write_text("[PAY-7] Never charge twice. Stands here too.\n")
    done = commands.revoke(tree, "[PAY-7]", "no longer so", clock)
    assert "Still mentioned in wiki/rules/payments.md" in done.messages
    left = (tree.root / "wiki" / "rules" / "payments.md").read_bytes()
    assert left == b"# Payments\r\n\r\n- [PAY-8] see [PAY-7]\r\n"
    assert not (tree.root / "wiki" / "rules" / "other.md").exists()
    kept = {each["path"]: each["text"] for each in events_of(tree)[-1].data["texts"]}
    assert kept["wiki/rules/payments.md"] == "- [PAY-7] Never charge twice.\r\n  Root cause: retries.\r\n"
    with pytest.raises(Problem, match=r"no rule has the tag \[PAY-7\]"):
        commands.revoke(tree, "PAY-7", "", clock)


def test_a_critical_rule_that_stands_nowhere_else(tree: Tree, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tree.root / "AGENTS.md"
    path.write_text(bootstrap.with_critical(path.read_text(), "[CORE-001] Never push to main."))
    assert views.status(tree, clock).rules[0].stage == "core"
    answering(monkeypatch, yes=True)
    core.revoke(tree, "CORE-001", "", clock)
    assert "CORE-001" not in path.read_text()
    assert events_of(tree)[-1].data["critical"] == ["- [CORE-001] Never push to main."]
    for session in "ab":
        told = register(tree, clock, session, "never push to main", expected="", got="never push to main")
    assert told[-1].startswith("Not promoted: [CORE-001]")


def test_core_writes_nothing_if_l0_changed_meanwhile(tree: Tree, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for session in "ab":
        register(tree, clock, session)

    def typed(text: str, question: str) -> bool:
        (tree.root / "AGENTS.md").write_text("edited by hand\n")
        return True

    monkeypatch.setattr(core, "typed_yes", typed)
    with pytest.raises(Problem, match="was changed while you were asked"):
        core.promote(tree, TAG, now=clock)
    assert text(tree, "AGENTS.md") == "edited by hand\n"


def test_search_finds_by_tag_and_by_words(tree: Tree, clock: Clock) -> None:
    for session in "ab":
        register(tree, clock, session)
    assert views.search(tree, "[STRIPE-WEBHOOK-001]")[0].tag == TAG
    assert views.search(tree, "are webhooks retried?")[0].path == PAGE
    assert views.search(tree, "kubernetes") == []


def test_history_of_what_never_was(tree: Tree, clock: Clock) -> None:
    for session in "ab":
        register(tree, clock, session)
    with pytest.raises(Problem, match="no rule ever had the tag") as caught:
        views.history(tree, "STRIPE-WEBHOOK-007")
    assert TAG in caught.value.advice


def test_status_counts_the_tax(tree: Tree, clock: Clock) -> None:
    (tree.root / "wiki" / "rules" / "all.md").write_text("Never guess.\n")
    table = "triggers:\n  - id: always\n    load: [wiki/rules/all.md]\n"
    (tree.root / "wiki" / "_routing.md").write_text(table)
    found: Any = views.status(tree, clock).record()["tax"]
    assert found["l0"] > 0 and found["always"] > 0 and found["budget"] == 400
