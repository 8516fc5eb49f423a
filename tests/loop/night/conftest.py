"""A toy job whose nights take no model: everybody says what the test wrote down, and everything that was asked is kept.

The student looks its question up among the examples of its skills, so a skill helps exactly with what it cites. The
proposer reads as many traces as it must, then makes the next of `toy.proposals`; the maintainer says the next of
`toy.studies`, or what suggests itself.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.engine import Engine
from nightschool.engine.types import Request
from nightschool.loop.evolve import evolve
from nightschool.loop.journal import Event, Journal
from nightschool.loop.night import Night
from nightschool.loop.nights import open_night, resolve
from nightschool.loop.progress import Silent
from nightschool.loop.workspace import Config, Workspace, create

ROLES = ("student", "maintainer", "proposer")
KEYS = ("k0", "k1", "k2", "k3")
TOML = 'schema = 1\nname = "toy"\nsystem = "Answer."\nmax_tokens = 8\n[evolve]\nmin_reads = 2\nmin_examples = 1\n'
Lines = Mapping[str, list[dict[str, Any]]]
Reply = Mapping[str, Any]


def line(split: str, key: str, words: str) -> dict[str, Any]:
    return {"id": f"{split}-{key}", "prompt": f"{words} {key}", "grader": {"kind": "exact", "expected": f"v-{key}"}}


TASKS: Lines = {
    "train": [line("train", key, "What is") for key in KEYS],
    "val": [line("val", key, "Tell me") for key in KEYS],
    "test": [line("test", key, "Say now") for key in KEYS],
}


def student(request: Request) -> str:
    word = request.messages[-1].content.split()[-1]
    found = re.search(rf"Question: .*\b{word}\nAnswer: (.*)", request.messages[0].content)
    return found[1] if found else "no idea"


class Notes(Silent):
    """Keeps what a night tells."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Toy:
    """A workspace, its people's scripts, and its nights."""

    def __init__(
        self, root: Path, tasks: Lines = TASKS, *, files: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        self.space = Workspace(root / "job")
        folder = root / "suite"
        folder.mkdir(parents=True)
        (folder / "suite.toml").write_text(TOML)
        (folder / "files").mkdir()
        for name, text in (files or {}).items():
            (folder / "files" / name).write_text(text)
        for split, lines in tasks.items():
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
        create(self.space.root, str(folder), Config(suite="toy").changed(**{"iterations": 1, **settings}))
        self.studies: deque[Reply] = deque()
        self.proposals: deque[Reply] = deque()
        self.student: Callable[[Request], str] = student
        self.watcher = Notes()
        self.engines: dict[str, list[ScriptedEngine]] = {role: [] for role in ROLES}
        self.context = 8192

    def opened(self, **flags: Any) -> AbstractContextManager[Night]:
        """The next night, or the unfinished one."""
        config = resolve(self.space, flags)
        return open_night(self.space, config, {role: role for role in ROLES}, self.open_engine, self.watcher)

    def night(self, **flags: Any) -> Journal:
        """Run a night to its end."""
        with self.opened(**flags) as night:
            evolve(night)
        return self.journal

    def open_engine(self, alias: str) -> Engine:
        scripts = {"student": lambda request: self.student(request)}
        scripts |= {"maintainer": self.maintain, "proposer": self.propose}
        engine = ScriptedEngine(default=scripts[alias], context=self.context)
        self.engines[alias].append(engine)
        return engine

    def maintain(self, request: Request) -> str:
        first = "(the wiki is empty)" in request.messages[-1].content
        usual = {"create": [page("house-values", "train-k0")], "log": "a page"} if first else study(log="nothing new")
        return compact(self.studies.popleft() if self.studies else usual)

    def propose(self, request: Request) -> str:
        assert request.grammar is not None
        if "finish" not in request.grammar.lark:
            unread = next(key for key in KEYS if f"traces/train-{key}" in request.grammar.lark)
            return compact({"thought": "so", "action": "read_file", "path": f"traces/train-{unread}"})
        chosen = self.proposals.popleft() if self.proposals else {"action": "no_action", "reason": "enough"}
        return compact({"thought": "so", "action": "finish", "proposal": chosen})

    @property
    def journal(self) -> Journal:
        return Journal(self.space.journal)

    def events(self, kind: str) -> list[Event]:
        """All events of this kind, of every night."""
        return [event for event in self.journal.events if event["event"] == kind]

    def prompts(self, role: str) -> list[str]:
        """Every prompt that a role ever saw, all its messages in one text."""
        asked = [request for engine in self.engines[role] for request in engine.prompts]
        return ["\n".join(message.content for message in request.messages) for request in asked]

    def read(self, path: str) -> str:
        """The text of a file of the workspace."""
        return (self.space.root / path).read_text("utf-8")

    def write(self, path: str, text: str) -> None:
        """A person writes a file."""
        target = self.space.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def skills(self) -> list[str]:
        return sorted(path.name for path in self.space.skills.iterdir())


def page(name: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    """A page as the maintainer writes it."""
    usual = {
        "name": name,
        "kind": "failure",
        "scope": "general",
        "problem": "the value is not known",
        "root_cause": "it is local",
        "fix": ["look it up"],
        "evidence": list(evidence),
    }
    return usual | fields


def study(*edits: Reply, create: list[Reply] | None = None, log: str = "a line") -> Reply:
    """A maintainer's reply when there are pages."""
    return {"edits": list(edits), "create": create or [], "log": log}


def made(name: str, *cites: str, **fields: Any) -> Reply:
    """A proposed skill; it helps with what it cites."""
    usual = {
        "action": "create",
        "name": name,
        "description": "local values",
        "when": ["asked"],
        "when_not": ["never"],
        "instructions": ["look"],
        "patterns": ["house-values"],
        "examples": [f"train-{key}" for key in cites],
    }
    return usual | fields


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


SKILL_MD = """---
name: {name}
description: by hand
---
# {name}

## Instructions
- {text}

## Examples
{examples}
"""


def by_hand(name: str, *keys: str, text: str = "by hand") -> str:
    """A SKILL.md that a person wrote; it helps with these keys."""
    examples = "\n\n".join(f"Question: What is {key}\nAnswer: v-{key}" for key in keys)
    return SKILL_MD.format(name=name, text=text, examples=examples)


class Words:
    """The builders above, for tests (there are no imports between test modules)."""

    page = staticmethod(page)
    study = staticmethod(study)
    made = staticmethod(made)
    by_hand = staticmethod(by_hand)
    line = staticmethod(line)
    tasks = TASKS
    toml = TOML


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here depends on fsync, and a busy disk is slow."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def words() -> type[Words]:
    return Words


@pytest.fixture
def toys(tmp_path: Path) -> Callable[..., Toy]:
    """Makes toys, each in a folder of its own."""
    numbers = iter(range(100))
    return lambda *args, **settings: Toy(tmp_path / f"toy-{next(numbers)}", *args, **settings)


@pytest.fixture
def toy(toys: Callable[..., Toy]) -> Toy:
    return toys()


@pytest.fixture
def finished(toy: Any, words: Any) -> Any:
    """After a night of an accept, a reject and a no_action."""
    toy.proposals += [words.made("helps", "k0"), words.made("idle", "k1", instructions=["x"])]
    toy.student = lambda request: "v-k0" if "# helps" in request.messages[0].content else "no idea"
    toy.night(iterations=3)
    return toy
