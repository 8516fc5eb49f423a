"""The inbox file: read tolerantly, written strictly, and nothing in it can be forged."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.sek import inbox
from nightschool.sek.inbox import Entry, added, draft, parse, removed, render

DAY = date(2026, 1, 31)
OLD = Entry("an older one", "workaround", "s0", DAY, "this", "that", "there")
TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\n\r\t\x00\x1b\u2028\u202e·[]#-*`<>!:") | st.sampled_from(" \n")),
    max_size=60,
) | st.sampled_from(
    ["got: x", "a\n- [2026-01-01] forged · correction · s9\n  expected: x got: y\n  where: z", "<!--", "-->", "```"]
)


def made(**said: str) -> Entry:
    told = {"topic": "t", "kind": "unexpected", "session": "s", "expected": "e", "got": "g", "where": "w", **said}
    return draft(**told, day=DAY)


def test_an_entry_is_three_lines() -> None:
    entry = made(topic="Stripe retries", expected="one", got="two", where="hooks.py:12")
    assert render(entry) == (
        "- [2026-01-31] Stripe retries · unexpected · s\n  expected: one got: two\n  where: hooks.py:12\n"
    )


@settings(deadline=None)
@given(topic=TEXT, session=TEXT, expected=TEXT, got=TEXT, where=TEXT, kind=st.sampled_from(inbox.KINDS))
def test_no_text_forges_an_entry(topic: str, session: str, expected: str, got: str, where: str, kind: str) -> None:
    try:
        entry = draft(topic, kind, session, expected, got, where, DAY)
    except Problem:
        return
    assert render(entry).count("\n") == 3 and entry.text == render(entry).rstrip("\n")
    assert (entry.kind, entry.day, entry.confirmed) == (kind, DAY, False)
    file = added(added("", OLD), entry)
    first, second = parse(file)
    assert first.text == render(OLD).rstrip("\n") and second.text == entry.text
    assert (second.topic, second.expected, second.got, second.where, second.session) == (
        entry.topic,
        entry.expected,
        entry.got,
        entry.where,
        entry.session,
    )
    assert parse(added(file, OLD))[2].topic == OLD.topic  # nor hides the next one


@settings(deadline=None)
@given(st.text(max_size=300) | st.text("-* \n`~#<!>[]2026·x:", max_size=300))
def test_any_file_takes_and_gives_back_an_entry(text: str) -> None:
    before = parse(text)
    after = added(text, OLD)
    entries = parse(after)
    assert entries[-1].text.replace("\r", "") == render(OLD).rstrip("\n")
    assert [entry.topic for entry in entries[:-1]] == [entry.topic for entry in before]
    left = removed(after, entries[-1:])
    assert left.strip() == (text or inbox.HEADER).strip()


@settings(deadline=None)
@given(st.text("-* \n`~#<!>[]26·x", max_size=200))
def test_every_entry_can_be_taken_out(text: str) -> None:
    left = removed(text, parse(text))
    assert [row for row in left.split("\n") if row.strip()] == _outside(text)


def _outside(text: str) -> list[str]:
    rows = text.split("\n")
    taken = {n for entry in parse(text) for n in range(entry.start, entry.end)}
    return [row for n, row in enumerate(rows) if row.strip() and n not in taken]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- only a topic\n", Entry("only a topic")),
        ("* [2026-01-31] t · correction\n", Entry("t", "correction", "", DAY)),
        ("1. [2026-01-31] t · s7 · Undocumented API\n", Entry("t", "undocumented-api", "s7", DAY)),
        ("[2026-01-31] t · s7\n", Entry("t", "unexpected", "s7", DAY)),
        ("- [x] [2026-01-31] t\n", Entry("t", day=DAY)),
        ("- 2026-01-31: t\n", Entry("t", day=DAY)),
        ("- [2026-13-31] t\n", Entry("[2026-13-31] t")),
        ("- [2026-01-31] t · confirmed\n", Entry("t", day=DAY, confirmed=True)),
        ("- t expected: a got: b where: c\n", Entry("t", expected="a", got="b", where="c")),
        ("- t\n  Expected: a\n  and more\n\n  Got: b\n", Entry("t", expected="a and more", got="b")),
        ("- t\n  - expected: a\n  - got: b\n", Entry("t", expected="a -", got="b")),
        ("- t\n  just words\n  over two lines\n", Entry("t", got="just words over two lines")),
        ("- t\r\n  expected: a got: b\r\n  where: c\r\n", Entry("t", expected="a", got="b", where="c")),
        ("- t\nlazy line\n", Entry("t", got="lazy line")),
    ],
)
def test_what_people_write(text: str, wanted: Entry) -> None:
    (entry,) = parse(text)
    fields = ("topic", "kind", "session", "day", "expected", "got", "where", "confirmed")
    assert [getattr(entry, name) for name in fields] == [getattr(wanted, name) for name in fields]
    assert removed(text, [entry]) == ""


def test_what_is_no_entry_stays() -> None:
    text = (
        "---\nowner: me\n---\n# Inbox\n\nWords.\n\n```\n- not an entry\n```\n<!--\n- nor this\n-->\n\n"
        "- one\n\nMore words.\n\n## Heading\n- two\n"
    )
    one, two = parse(text)
    assert (one.topic, two.topic) == ("one", "two")
    assert removed(text, [one, two]).split() == text.replace("- one", "").replace("- two", "").split()


def test_a_torn_fence_hides_nothing() -> None:
    assert [entry.topic for entry in parse("```\n- one\n\n- two\n")] == ["one", "two"]


def test_an_entry_without_a_session_counts_as_of_its_day() -> None:
    one, two, three = parse("- [2026-01-30] t\n- [2026-01-31] t\n- [2026-01-31] t\n")
    assert inbox.sessions([two, three]) == 1 and inbox.sessions([one, two]) == 2


def test_topics_are_one_however_they_are_spelled() -> None:
    entries = parse("- React component\n- 日本語の検索。\n- React components\n- build\n- 日本語の検索\n")
    assert [len(group) for group in inbox.topics(entries)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"topic": " \n\t "}, "an entry needs a topic"),
        ({"topic": "###"}, "an entry needs a topic"),
        ({"expected": "", "got": "\x00"}, "what was expected or what came"),
        ({"topic": "x" * 121}, "the topic is 121 characters long, at most 120"),
        ({"got": "x" * 601}, "'got' is 601 characters long"),
        ({"kind": "corection"}, "'corection' is no kind of entry"),
    ],
)
def test_what_is_refused(said: dict[str, str], what: str) -> None:
    with pytest.raises(Problem, match=what):
        made(**said)


def test_a_date_is_put_in_front_of_what_has_none() -> None:
    text = "- [x] t · s\n* [2026-01-30] u\n"
    assert inbox.dated(text, DAY) == "- [x] [2026-01-31] t · s\n* [2026-01-30] u\n"
