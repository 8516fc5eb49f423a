"""The student: one task becomes one trace.

Its system prompt is the suite's text and the accepted skills, all of them or those for the task (inject.py); the wiki, L0,
rules and inbox are never in it. A task with files is worked on in turns with tools (tools.py), and so is one whose student
may look into the wiki; any other is answered in one reply. What an observation may take is what the context leaves: a
conversation that fills it ends with an answer, if an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nightschool.engine.engine import Job, JobResult
from nightschool.engine.grammar import Grammar
from nightschool.engine.schema import to_term
from nightschool.engine.types import Completion, Message, PromptTooLong, Request, Sampling
from nightschool.loop import graders, inject, seeds, tools
from nightschool.loop.journal import add_counts
from nightschool.loop.meter import Meter
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.skills import SkillSet
from nightschool.loop.suite import Suite, Task
from nightschool.loop.tools import Toolbox
from nightschool.loop.traces import Split, Step, Trace, trace_id
from nightschool.loop.wiki import Wiki

TURN_TOKENS = 400
OBSERVATION_CHARS = 4000
OBSERVATION_TOKENS = 1000
LEAST_TOKENS = 80
"""An observation of fewer tokens is not worth a turn."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a student sits: everything about a rollout but its task."""

    suite: Suite
    skills: SkillSet
    settings: EvolveSettings
    split: Split
    iteration: int
    seed: int
    model: str
    meter: Meter
    engine: Mapping[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    attempt: int = 0
    wiki: Wiki | None = None
    """What the student may look into; only ever given on the test split."""

    def given(self, task: Task) -> SkillSet:
        """The skills that this task's student reads."""
        return inject.chosen(self.skills, task.prompt, self.settings.inject)


def system_prompt(suite: Suite, skills: SkillSet) -> str:
    """The suite's own words, then every skill."""
    return "\n\n".join(part for part in (suite.system.strip(), skills.prompt) if part)


def toolbox(suite: Suite, task: Task, pages: Mapping[str, str] | None = None) -> Toolbox:
    """What a task's student may look into."""
    return Toolbox(suite.folder / "files", task.files, pages or {})


def opening(suite: Suite, skills: SkillSet, task: Task, box: Toolbox | None = None) -> tuple[Message, Message]:
    """What a student is asked first."""
    asked = task_prompt(task, toolbox(suite, task) if box is None else box)
    return Message("system", system_prompt(suite, skills)), Message("user", asked)


def task_prompt(task: Task, box: Toolbox) -> str:
    """The question, and what comes with it."""
    return task.prompt + (box.told() if box else "")


def answer_tokens(suite: Suite, box: Toolbox) -> int:
    """The most tokens of one reply, thinking not counted."""
    return max(TURN_TOKENS, suite.max_tokens) if box else suite.max_tokens


def reply_tokens(suite: Suite, box: Toolbox, meter: Meter, *, think: bool) -> int:
    """The room that one reply needs, its thinking included."""
    return answer_tokens(suite, box) + meter.thinking(think)


def needed_tokens(suite: Suite, skills: SkillSet, task: Task, meter: Meter, *, think: bool) -> int:
    """What a task takes of the context, at most, until its first reply has ended."""
    box = toolbox(suite, task)
    return meter.count(opening(suite, skills, task, box)) + reply_tokens(suite, box, meter, think=think)


def refuse_long(
    suite: Suite, skills: SkillSet, tasks: Sequence[Task], meter: Meter, *, think: bool = False, how: str = "full"
) -> None:
    """Refuse tasks that leave no room for an answer in the model's context, before anything is run.

    `how` skills are injected is a setting (inject.py).
    """
    everything = skills
    for task in tasks:
        skills = inject.chosen(everything, task.prompt, how)
        answer = reply_tokens(suite, toolbox(suite, task), meter, think=think)
        whole = needed_tokens(suite, skills, task, meter, think=think)
        if whole > meter.context:
            parts = {
                "the system prompt": suite.system.strip(),
                "the skills": skills.prompt,
                f"task {task.id}": task.prompt,
            }
            longest = max(parts, key=lambda name: meter.text(parts[name]))
            thinking = " (thinking included)" if meter.thinking(think) else ""
            raise PromptTooLong(
                f"the prompt of task {task.id} takes {whole - answer} tokens and its answer {answer}{thinking}, but the"
                f" context holds {meter.context}; the longest part is {longest} with {meter.text(parts[longest])}",
                "shorten that part, lower max_tokens in suite.toml"
                + (" or think_tokens in models.toml" if thinking else "")
                + ", or raise the model's context in models.toml",
            )


def sampling(seat: Seat, task: Task, turn: int, max_tokens: int) -> Sampling:
    """Greedy unless told otherwise; val draws the same noise in every iteration."""
    split, iteration = ("val", 0) if seat.split in ("val", "edited") else (seat.split, seat.iteration)
    temperature = seat.settings.student_temperature if seat.temperature is None else seat.temperature
    return seat.meter.draw(
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seeds.derive(seat.seed, split, iteration, "student", task.id, turn, seat.attempt),
        stop=seat.suite.stop,
        think=seat.settings.think,
    )


def solve(seat: Seat, task: Task) -> Generator[Request | Job, Any, Trace]:
    """Work on one task until there is an answer, and grade it."""
    if box := _box(seat, task):
        return (yield from _with_tools(seat, task, box))
    messages = opening(seat.suite, seat.given(task), task, box)
    grammar = Grammar.from_schema(task.answer) if task.answer is not None else None
    completion: Completion = yield Request(
        messages, grammar, sampling(seat, task, 0, answer_tokens(seat.suite, box)), seat.settings.think
    )
    counts = _count(completion) if grammar else {}
    text = _plain(task, completion) if task.answer is not None else completion.text.strip()
    return _trace(seat, task, messages, (), text, completion.finish, asdict(completion.usage), counts)


def _box(seat: Seat, task: Task) -> Toolbox:
    """The task's files, and those fitting wiki pages whose names leave room for as much again."""
    box, meter = toolbox(seat.suite, task), seat.meter
    pages: dict[str, str] = {}
    for page in inject.offered(seat.wiki, task.prompt) if seat.wiki else ():
        more = toolbox(seat.suite, task, pages | {page.id: page.text})
        asked = meter.count(opening(seat.suite, seat.given(task), task, more))
        if asked + 2 * reply_tokens(seat.suite, more, meter, think=seat.settings.think) + LEAST_TOKENS > meter.context:
            break
        box, pages = more, {**more.pages}
    return box


def _with_tools(seat: Seat, task: Task, box: Toolbox) -> Generator[Request | Job, Any, Trace]:
    meter = seat.meter
    answer = to_term(task.answer) if task.answer is not None else tools.free_answer(seat.suite.max_tokens)
    reply = reply_tokens(seat.suite, box, meter, think=seat.settings.think)
    messages: list[Message] = [*opening(seat.suite, seat.given(task), task, box)]
    steps: list[Step] = []
    usage: dict[str, int] = {}
    counts: dict[str, int] = {}
    for turn in range(seat.settings.student_turns):
        if steps and meter.count(messages) + reply > meter.context:
            break
        full = _framed(meter, messages) + 2 * reply + LEAST_TOKENS > meter.context
        last = turn + 1 == seat.settings.student_turns or full
        grammar = Grammar.build(box.actions(answer, only_answer=last))
        completion: Completion = yield Request(
            tuple(messages),
            grammar,
            sampling(seat, task, turn, answer_tokens(seat.suite, box)),
            seat.settings.think,
        )
        usage = add_counts(usage, asdict(completion.usage))
        counts = add_counts(counts, _count(completion))
        action = json.loads(completion.text) if completion.valid else {"action": "answer", "answer": ""}
        if action["action"] == "answer":
            text = _written(task, action["answer"])
            return _trace(seat, task, messages, tuple(steps), text, completion.finish, usage, counts)
        args = {key: value for key, value in action.items() if key not in ("thought", "action")}
        observed: JobResult = yield Job(
            lambda name=action["action"], args=args: box.run(name, args)  # type: ignore[misc]
        )
        room = meter.context - reply - _framed(meter, [*messages, Message("assistant", completion.text)], user=True)
        shown = meter.fit(observed.value, min(OBSERVATION_TOKENS, max(room, 0)), OBSERVATION_CHARS)
        steps.append(Step(action["thought"], action["action"], args, shown))
        messages += [Message("assistant", completion.text), Message("user", shown)]
    return _trace(seat, task, messages, tuple(steps), "", "length", usage, counts)


def _framed(meter: Meter, messages: Sequence[Message], *, user: bool = False) -> int:
    """Tokens of the conversation with empty messages where the next ones will stand."""
    following = [Message("user", "")] if user else [Message("assistant", ""), Message("user", "")]
    return meter.count([*messages, *following])


def _plain(task: Task, completion: Completion) -> str:
    """An answer that its schema makes JSON; a mere text is graded without its quotes."""
    value = json.loads(completion.text) if completion.valid else None
    return _written(task, value) if isinstance(value, str) else completion.text.strip()


def _written(task: Task, value: Any) -> str:
    """An answer as its grader reads it."""
    if task.answer is None and isinstance(value, list):
        return "\n".join(value)
    if isinstance(value, str) and (task.answer is None or task.grader.kind != "json"):
        return value
    return json.dumps(value, ensure_ascii=False)


def _count(completion: Completion) -> dict[str, int]:
    """The reply, and those that a server gave before it in vain."""
    total = 1 + completion.refused
    return {"total": total, "valid": int(completion.valid), "retried": completion.refused, "degraded": 0}


def _trace(
    seat: Seat,
    task: Task,
    messages: tuple[Message, ...] | list[Message],
    steps: tuple[Step, ...],
    answer: str,
    finish: str,
    usage: Mapping[str, int | None],
    replies: Mapping[str, int],
) -> Trace:
    grade = graders.grade(task.grader, answer)
    return Trace(
        id=trace_id(seat.iteration, seat.split, task.id),
        task=task.id,
        prompt=task.prompt,
        attempt=seat.attempt,
        messages=tuple({"role": message.role, "content": message.content} for message in messages),
        steps=steps,
        answer=answer,
        expected=graders.reference(task.grader),
        score=grade.score,
        reason=grade.reason,
        finish=finish,
        usage={**usage, "injected_tokens": _injected(seat, task)},
        seed=sampling(seat, task, 0, 1).seed,
        model=seat.model,
        skills_sha=seat.skills.sha,
        engine=seat.engine,
        replies=replies,
        rules=grade.rules,
    )


def _injected(seat: Seat, task: Task) -> int:
    """Tokens that skills take of the system prompt."""
    given = seat.given(task)
    if not given:
        return 0
    whole, bare = system_prompt(seat.suite, given), seat.suite.system.strip()
    return seat.meter.system(whole) - seat.meter.system(bare)
