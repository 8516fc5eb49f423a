"""What is counted, cut and left out: by the model's own tokens, and by what is said about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nightschool.engine.types import Message
from nightschool.loop import seeds
from nightschool.loop.excerpts import shrink
from nightschool.loop.meter import THINK_TOKENS, Meter
from nightschool.loop.settings import EvolveSettings

MARK = re.compile(r"\n\[… ([\d,]+) characters left out …\]\n")


def count(messages: Sequence[Message]) -> int:
    """A tokenizer to which a CJK sign is three tokens, under a template that says the system prompt twice."""
    size = {"system": 2}
    return sum(
        size.get(message.role, 1) * sum(3 if char > "\u3000" else 1 for char in message.content) + 3
        for message in messages
    )


METER = Meter(count, 4096)
text = st.text(st.sampled_from("ab 漢字\n"), max_size=400)


def left_out(original: str, shown: str) -> None:
    """The mark tells how many characters of the original are missing, and there is one mark."""
    if shown == original:
        return
    (mark,) = MARK.finditer(shown)
    head, tail = shown[: mark.start()], shown[mark.end() :]
    assert original.startswith(head)
    assert original.endswith(tail)
    assert int(mark[1].replace(",", "")) == len(original) - len(head) - len(tail)


@given(text, st.integers(min_value=-5, max_value=500))
@settings(deadline=None)
def test_a_shrunk_text_tells_what_is_missing(original: str, limit: int) -> None:
    shown = shrink(original, limit)
    left_out(original, shown)
    assert len(shown) <= max(limit, 40)


@given(text, st.integers(min_value=60, max_value=500), st.none() | st.integers(min_value=60, max_value=300))
@settings(deadline=None)
def test_a_text_is_cut_to_tokens_and_tells_what_is_missing(original: str, tokens: int, chars: int | None) -> None:
    shown = METER.fit(original, tokens, chars)
    left_out(original, shown)
    assert METER.text(shown) <= max(tokens, 60)
    assert len(shown) <= (chars or len(original))


@given(st.lists(text, max_size=12), st.integers(min_value=-5, max_value=900))
@settings(deadline=None)
def test_what_does_not_fit_is_skipped_and_listed(parts: list[str], tokens: int) -> None:
    kept, left = METER.take(parts, tokens)
    assert sorted([*kept, *left]) == list(range(len(parts)))
    assert sum(METER.text(parts[index]) for index in kept) <= max(tokens, 0)
    for index in left:
        before = sum(METER.text(parts[other]) for other in kept if other < index)
        assert before + METER.text(parts[index]) > tokens, "it would have fitted"


def test_one_long_part_does_not_hide_the_short_ones_behind_it() -> None:
    assert METER.take(["x" * 900, "a", "b"], 100) == ([1, 2], [0])


def test_a_system_prompt_is_counted_as_the_template_says_it() -> None:
    assert METER.system("x" * 100) > 200 > METER.text("x" * 100)


@given(st.lists(st.integers(), max_size=40, unique=True), st.integers(0, 50), st.integers(0, 2**31 - 1))
def test_some_are_drawn_in_their_order(items: list[int], n: int, seed: int) -> None:
    drawn = seeds.some(items, n, seed)
    assert len(drawn) == min(n, len(items))
    assert drawn == [item for item in items if item in set(drawn)]
    assert drawn == seeds.some(items, n, seed)


def test_what_comes_first_is_not_preferred() -> None:
    drawn = {tuple(seeds.some(range(9), 3, seed)) for seed in range(40)}
    assert {item for one in drawn for item in one} == set(range(9))


@pytest.mark.parametrize(
    ("meter", "expected"),
    [
        (METER, THINK_TOKENS),
        (Meter(count, 4096, {"think_tokens": 77}), 77),
        (Meter(count, 4096, {"think_tokens": 77}, thinks=False), 0),
    ],
)
def test_thinking_has_its_tokens_and_its_room(meter: Meter, expected: int) -> None:
    drawn = [meter.draw(max_tokens=8, temperature=0, seed=1, think=think) for think in (True, False)]
    assert [sampling.think_tokens for sampling in drawn] == [expected, 0]
    assert meter.thinking(False) == 0
    assert meter.thinking(True) > expected if expected else meter.thinking(True) == 0


@pytest.mark.parametrize("key", ["fail", "pass"])
def test_no_more_traces_are_shown_than_a_grammar_tells_apart(key: str) -> None:
    assert EvolveSettings.model_validate({key: 31})
    with pytest.raises(ValidationError):
        EvolveSettings.model_validate({key: 32})
