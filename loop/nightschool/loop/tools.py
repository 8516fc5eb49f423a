"""A student's tools over its task's own files: `read`, `glob`, `grep`. Nothing outside that list of files can be reached.

Paths come from an enum, patterns are shell globs over the listed paths, and `grep` searches a plain text, so a reply can
neither name another file nor hang the search.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

from nightschool.disk import files
from nightschool.engine import terms as t
from nightschool.loop.excerpts import shrink
from nightschool.loop.graders import MAX_ANSWER
from nightschool.loop.suite import Task

MAX_HITS = 40
PATTERN = 60
THOUGHT = 160
LINE_CHARS = 400
MOST_LINES = 200
CHARS_A_TOKEN = 4
"""Ample: what ends a reply is max_tokens, not this."""


def free_answer(tokens: int) -> t.Term:
    """An answer without a schema: one line, or a list of lines, as long as `tokens` may be."""
    chars = min(max(LINE_CHARS, tokens * CHARS_A_TOKEN), MAX_ANSWER)
    line = min(chars, MAX_ANSWER // 10)
    return t.alt([t.text(chars), t.lines(1, min(max(chars // 40, 2), MOST_LINES), line)])


def actions(task: Task, answer: t.Term, *, only_answer: bool) -> t.Term:
    """The next action's grammar: one tool call, or the answer."""
    finish = t.obj({"thought": t.text(THOUGHT, 1), "action": t.choice(["answer"]), "answer": answer})
    if only_answer:
        return finish
    read = t.obj({"thought": t.text(THOUGHT, 1), "action": t.choice(["read"]), "path": t.choice(list(task.files))})
    find = [
        t.obj({"thought": t.text(THOUGHT, 1), "action": t.choice([name]), "pattern": t.text(PATTERN)})
        for name in ("glob", "grep")
    ]
    return t.alt([finish, read, *find])


def run(task: Task, root: Path, action: str, args: Mapping[str, str], limit: int | None = None) -> str:
    """What the tool observed, at most `limit` characters if there is a limit."""
    text = _observed(task, root, action, args)
    return text if limit is None else shrink(text, limit)


def _observed(task: Task, root: Path, action: str, args: Mapping[str, str]) -> str:
    if action == "read":
        return _text(root, args["path"])
    if action == "glob":
        found = [path for path in task.files if fnmatch.fnmatchcase(path, args["pattern"])]
        return "\n".join(found) or "no file matches"
    return "\n".join(_grep(task.files, root, args["pattern"])) or "no line contains it"


def _grep(paths: Sequence[str], root: Path, pattern: str) -> list[str]:
    wanted = pattern.casefold()
    hits = (
        f"{path}:{number}: {line}"
        for path in paths
        for number, line in enumerate(_text(root, path).split("\n"), 1)
        if wanted in line.casefold()
    )
    return [hit for hit, _ in zip(hits, range(MAX_HITS), strict=False)]


def _text(root: Path, path: str) -> str:
    with files.explained(root / path):
        return (root / path).read_text("utf-8", errors="replace")
