"""A student's tools: `read`, `glob`, `grep` over its task's own files, `wiki` over the pages that it was offered.

Paths and pages come from enums, patterns are shell globs over the listed paths, and `grep` searches a plain text, so a reply
can neither name another file nor hang the search.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nightschool.disk import files
from nightschool.engine import terms as t
from nightschool.loop.excerpts import shrink
from nightschool.loop.graders import MAX_ANSWER

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


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What one student may look into: files below `root`, and wiki pages by their ids."""

    root: Path
    files: Sequence[str] = ()
    pages: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to look into."""
        return bool(self.files or self.pages)

    def told(self) -> str:
        """What the student is told of it, after its task."""
        parts = ["\n\nFiles:\n" + "\n".join(self.files)] if self.files else []
        parts += ["\n\nWiki pages:\n" + "\n".join(self.pages)] if self.pages else []
        looks = [*(["read, glob or grep"] if self.files else []), *(["wiki"] if self.pages else [])]
        return "".join(parts) + f"\n\nReply with one JSON action: {' or '.join(looks)} to look, answer to end."

    def actions(self, answer: t.Term, *, only_answer: bool) -> t.Term:
        """The next action's grammar: one tool call, or the answer."""
        found = [_action("answer", {"answer": answer})]
        if self.files and not only_answer:
            found.append(_action("read", {"path": t.choice(list(self.files))}))
            found += [_action(name, {"pattern": t.text(PATTERN)}) for name in ("glob", "grep")]
        if self.pages and not only_answer:
            found.append(_action("wiki", {"page": t.choice(list(self.pages))}))
        return t.alt(found) if len(found) > 1 else found[0]

    def run(self, action: str, args: Mapping[str, str], limit: int | None = None) -> str:
        """What the tool observed, at most `limit` characters if there is a limit."""
        text = self._observed(action, args)
        return text if limit is None else shrink(text, limit)

    def _observed(self, action: str, args: Mapping[str, str]) -> str:
        if action == "wiki":
            return self.pages[args["page"]]
        if action == "read":
            return _text(self.root, args["path"])
        if action == "glob":
            found = [path for path in self.files if fnmatch.fnmatchcase(path, args["pattern"])]
            return "\n".join(found) or "no file matches"
        return "\n".join(_grep(self.files, self.root, args["pattern"])) or "no line contains it"


def _action(name: str, args: Mapping[str, t.Term]) -> t.Term:
    return t.obj({"thought": t.text(THOUGHT, 1), "action": t.choice([name]), **args})


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
