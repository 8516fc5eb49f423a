"""A student with files in any context: it looks as far as there is room, and a conversation that fills it is an answer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine.backends.scripted import ScriptedEngine, tokens
from nightschool.engine.engine import drive
from nightschool.engine.types import Message, PromptTooLong, Request
from nightschool.loop import student
from nightschool.loop.graders import parse_grader
from nightschool.loop.meter import Meter
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.skills import SkillSet
from nightschool.loop.suite import Suite, Task
from nightschool.loop.traces import Trace

TEXTS = {"words.txt": "word " * 5000, "signs.txt": "漢字、" * 4000, "short.txt": "the port is 8417"}
ANSWERS = {"line": "8417", "lines": "## Status\nThe disk is full.\n[OPS]"}


def act(action: str, **fields: Any) -> str:
    return json.dumps({"thought": "t", "action": action, **fields}, ensure_ascii=False, separators=(",", ":"))


class Thinking(ScriptedEngine):
    """Needs the room for thinking too, as a real engine does."""

    def submit(self, request: Request) -> int:
        sampling = request.sampling
        whole = self.count(request.messages) + sampling.max_tokens
        if request.think and whole + sampling.think_tokens + 1 > self.model.context:
            raise PromptTooLong("no room to think", "lower think_tokens")
        return super().submit(request)


class Dense(Thinking):
    """To its tokenizer a sign that is no word is one token each, so that CJK costs more than its characters / 4."""

    def count(self, messages: Sequence[Message]) -> int:
        return sum(sum(3 if char > "\u3000" else 0.3 for char in one.content).__ceil__() + 3 for one in messages)


@pytest.fixture
def desk(tmp_path: Path) -> Callable[..., Any]:
    """Runs one task with files; every reply comes of `say`."""
    for name, text in TEXTS.items():
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_text(text, "utf-8")

    def run(
        say: Callable[[Request], str],
        *,
        context: int,
        max_tokens: int = 8,
        think: bool = False,
        grader: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        engine: type[ScriptedEngine] = Thinking,
        files: bool = True,
    ) -> tuple[Trace, ScriptedEngine]:
        chosen = parse_grader(dict(grader or {"kind": "exact", "expected": "8417"}))
        task = Task("t", "Which port?", chosen, tuple(TEXTS) if files else (), answer)
        suite = Suite("desk", "Answer.", max_tokens, (), (task,), (task,), (task,), tmp_path, "0")
        made = engine(default=say, context=context)
        meter = Meter(made.count, context, {"think_tokens": 100})
        settings = EvolveSettings(think=think)
        student.refuse_long(suite, SkillSet(), (task,), meter, think=think)
        seat = student.Seat(suite, SkillSet(), settings, "train", 1, 7, "scripted", meter)
        ((_, trace),) = drive(made, {"t": student.solve(seat, task)})
        return trace, made

    return run


def reads(*names: str) -> Callable[[Request], str]:
    """Reads these files as long as it may, then answers."""

    def say(request: Request) -> str:
        assert request.grammar is not None
        turn = len(request.messages) // 2 - 1
        if "read" in request.grammar.lark and turn < len(names):
            return act("read", path=names[turn])
        return act("answer", answer="8417")

    return say


@pytest.mark.parametrize("engine", [Thinking, Dense])
@pytest.mark.parametrize("max_tokens", [8, 300, 700])
@pytest.mark.parametrize("think", [False, True])
def test_no_conversation_is_too_long_whatever_is_read(
    desk: Callable[..., Any], engine: type[ScriptedEngine], max_tokens: int, think: bool
) -> None:
    draw = random.Random(3)
    for context in (600, 900, 1300, 1700, 2048, 4096, 8192):
        names = draw.choices(list(TEXTS), k=7)
        if context < max(400, max_tokens) + 200 + 108 * think:
            continue
        trace, made = desk(reads(*names), context=context, max_tokens=max_tokens, think=think, engine=engine)
        assert trace.score in (0.0, 1.0)
        room = [made.count(request.messages) + request.sampling.max_tokens for request in made.prompts]
        assert max(room) <= context


@pytest.mark.parametrize("context", [1300, 2048, 4096])
def test_a_small_context_has_its_tools(desk: Callable[..., Any], context: int) -> None:
    trace, _ = desk(reads("short.txt"), context=context)
    assert [step.observation for step in trace.steps] == ["the port is 8417"]
    assert trace.passed


def test_what_is_cut_tells_how_much(desk: Callable[..., Any]) -> None:
    trace, _ = desk(reads("signs.txt"), context=8192, engine=Dense)
    shown = trace.steps[0].observation
    assert "characters left out" in shown
    assert len(shown.replace("\n", "")) < 400, "a thousand tokens of it"


def test_a_conversation_that_does_not_fit_is_an_empty_answer(desk: Callable[..., Any]) -> None:
    """A template that makes much of a long conversation."""

    class Swelling(Thinking):
        def count(self, messages: Sequence[Message]) -> int:
            return super().count(messages) + (5000 if any("8417" in one.content for one in messages) else 0)

    trace, made = desk(reads("short.txt"), context=4096, engine=Swelling)
    assert (trace.answer, trace.score, trace.finish) == ("", 0.0, "length")
    assert len(trace.steps) == len(made.prompts) == 1
    assert trace.usage["generated_tokens"]


@pytest.mark.parametrize("files", [False, True])
def test_thinking_is_asked_for_and_has_its_tokens(desk: Callable[..., Any], files: bool) -> None:
    for think in (False, True):
        _, made = desk(
            lambda request: act("answer", answer="x") if request.grammar else "x",
            context=4096,
            think=think,
            files=files,
        )
        assert [(one.think, one.sampling.think_tokens) for one in made.prompts] == [(think, 100 * think)]


def test_room_for_thinking_is_missed_before_the_night(desk: Callable[..., Any]) -> None:
    say = reads()
    desk(say, context=470)
    with pytest.raises(PromptTooLong, match="thinking included"):
        desk(say, context=470, think=True)


@pytest.mark.parametrize("shape", list(ANSWERS))
def test_an_answer_has_one_line_or_several(desk: Callable[..., Any], shape: str) -> None:
    text = ANSWERS[shape]
    value: Any = text if shape == "line" else text.split("\n")
    trace, _ = desk(
        lambda request: act("answer", answer=value), context=4096, grader={"kind": "exact", "expected": text}
    )
    assert trace.answer == text
    assert trace.passed


@pytest.mark.parametrize("max_tokens", [256, 1000])
def test_a_long_answer_is_bounded_by_max_tokens(desk: Callable[..., Any], max_tokens: int) -> None:
    text = "word " * (max_tokens - 80)
    lines = [text[at : at + 500] for at in range(0, len(text), 500)]
    trace, _ = desk(
        lambda request: act("answer", answer=lines),
        context=8192,
        max_tokens=max_tokens,
        grader={"kind": "contains", "expected": "word"},
    )
    assert tokens(trace.answer) >= max_tokens - 100
    assert trace.passed


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize(
    ("grader", "schema", "value"),
    [
        ({"kind": "exact", "expected": "harbor"}, {"type": "string", "maxLength": 20}, "harbor"),
        ({"kind": "json", "expected": "harbor"}, {"type": "string", "maxLength": 20}, "harbor"),
        ({"kind": "number", "expected": 7}, {"type": "integer", "minimum": 0, "maximum": 9}, 7),
        (
            {"kind": "json", "expected": ["a", "b"]},
            {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 2},
            ["a", "b"],
        ),
    ],
)
def test_an_answer_under_a_schema_can_be_right(
    desk: Callable[..., Any], grader: Any, schema: Any, value: Any, files: bool
) -> None:
    said = json.dumps(value, separators=(",", ":"))
    trace, _ = desk(
        lambda request: act("answer", answer=value) if files else said,
        context=4096,
        max_tokens=40,
        grader=grader,
        answer=schema,
        files=files,
    )
    assert trace.passed
