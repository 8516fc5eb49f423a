"""A made-up job of any size for the bench of the loop: its tasks, its wiki, and people who answer at once.

The student's score grows with the skills that help, so of the proposals every second one is accepted and the others are
not; the maintainer adds a page in every iteration. All of it goes through the grammars, as a model's replies do. What is
timed, and how, is left to `loopcost`.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.disk.files import write_atomic

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.types import Request
    from nightschool.loop.traces import Trace
    from nightschool.loop.workspace import Workspace

ROLES = ("student", "maintainer", "proposer")
CONTEXT = 32_768
SHARES = {"train": 0.5, "val": 0.4, "test": 0.1}
CITED = 3
"""Traces that a page cites."""
STEP = 0.1
"""What a skill that helps adds to the share of right answers."""
_TOML = 'schema = 1\nname = "made"\nsystem = "Answer as the house does."\nmax_tokens = 16\n'
_STORY = "The build host of section {n} kept its log, and the team asked for line {m} of it before the review. "


@contextmanager
def made_job(tasks: int, pages: int, iterations: int) -> Iterator[Workspace]:
    """A workspace with this many tasks (train, val and test together) and pattern pages; gone after the block."""
    from nightschool.loop.workspace import Config, create

    with tempfile.TemporaryDirectory(prefix="nightschool-bench-") as name:
        suite = Path(name) / "suite"
        write_atomic(suite / "suite.toml", _TOML)
        for split, share in SHARES.items():
            lines = [json.dumps(_task(split, number)) + "\n" for number in range(max(round(tasks * share), 1))]
            write_atomic(suite / f"{split}.jsonl", "".join(lines))
        space = create(Path(name) / "job", str(suite), Config(suite="made").changed(iterations=iterations))
        old = [_old_trace(space, number) for number in range(max(round(tasks * SHARES["train"]), 1))]
        for page in range(pages):
            _write_page(space, page, [old[(page * CITED + n) % len(old)] for n in range(min(CITED, len(old)))])
        yield space


def people() -> Callable[[str], Engine]:
    """An opener for the night's crew: one scripted engine a role."""
    from nightschool.engine.backends.scripted import ScriptedEngine

    proposer = _Proposer()
    scripts: Mapping[str, Callable[[Request], str]] = {
        "student": _student,
        "maintainer": _maintain,
        "proposer": proposer.reply,
    }
    return lambda role: ScriptedEngine(default=scripts[role], context=CONTEXT)


def _task(split: str, number: int) -> dict[str, object]:
    story = "".join(_STORY.format(n=number, m=line) for line in range(3))
    return {
        "id": f"{split}-{number:05d}",
        "prompt": f"{story}What does {split} {number} say?",
        "grader": {"kind": "exact", "expected": f"line {number % 10}"},
    }


def _old_trace(space: Workspace, number: int) -> Trace:
    """A train trace of a night before; pages cite it."""
    from nightschool.loop import traces

    task = _task("train", number)
    name, prompt = str(task["id"]), str(task["prompt"])
    trace = traces.Trace(
        id=traces.trace_id(0, "train", name),
        task=name,
        prompt=prompt,
        attempt=0,
        messages=({"role": "user", "content": prompt},),
        steps=(),
        answer="no idea",
        expected=f"line {number % 10}",
        score=0.0,
        reason="not what was expected",
        finish="stop",
        usage={},
        seed=0,
        model="scripted",
        skills_sha="",
    )
    traces.write(space.raw, trace)
    return trace


def _write_page(space: Workspace, number: int, evidence: list[Trace]) -> None:
    """A page as a night before left it."""
    from nightschool.loop import wiki

    page = wiki.new_page(
        f"pattern-{number:05d}",
        kind="failure",
        scope="general",
        problem=[f"line {number} was not what the team asked for"],
        root_cause=[f"the log of section {number} is rotated at night"],
        fix=[f"read the older log of section {number}", f"say line {number} as it stands"],
        evidence=evidence,
        iteration=0,
    )
    (space.wiki / "patterns" / f"{page.id}.md").write_text(page.text, "utf-8")


def _student(request: Request) -> str:
    """Right on a share of the tasks that grows with the skills that help."""
    number = int(request.messages[-1].content.split()[-2])
    helped = request.messages[0].content.count("it helps")
    return f"line {number % 10}" if number * 7 % 100 < 100 * STEP * (1 + helped) else "no idea"


def _maintain(request: Request) -> str:
    prompt = request.messages[-1].content
    task = re.findall(r"^Trace (train-\d+) ", prompt, re.MULTILINE)[0]
    page = {
        "name": "seen-again",
        "kind": "failure",
        "scope": "general",
        "problem": "the line is not known",
        "root_cause": "it is local",
        "fix": ["look it up"],
        "evidence": [task],
    }
    edit = [{"op": "append", "page": found, "content": ["seen again"], "evidence": [task]} for found in _shown(prompt)]
    edits = {} if "(the wiki is empty)" in prompt else {"edits": edit[:1]}
    return _compact({**edits, "create": [page], "log": "a page more"})


def _shown(prompt: str) -> list[str]:
    return re.findall(r"^Page (\S+)\n---$", prompt, re.MULTILINE)


class _Proposer:
    """Reads what it must, then makes a skill; every second one helps."""

    def __init__(self) -> None:
        self.made = 0

    def reply(self, request: Request) -> str:
        assert request.grammar is not None
        grammar = request.grammar.lark
        if "no_action" not in grammar:
            path = re.search(r"traces/train-\d+", grammar)
            assert path is not None
            return _compact({"thought": "so", "action": "read_file", "path": path[0]})
        tasks = sorted(set(re.findall(r'\\"(train-\d+)\\"', grammar)))[:4]
        pages = re.findall(r'\\"((?:pattern|seen-again)(?:-\d+)?)\\"', grammar)[:1]
        self.made += 1
        proposal = {
            "action": "create",
            "name": "made",
            "description": f"lines, number {self.made}",
            "when": ["a line is asked for"],
            "when_not": ["never"],
            "instructions": ["it helps" if self.made % 2 else "look"],
            "patterns": pages,
            "examples": tasks,
        }
        return _compact({"thought": "so", "action": "finish", "proposal": proposal})


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
