"""`sek context`: a coding agent's hook in, the pages for its prompt out; nothing at all if anything goes wrong.

In: the JSON of a prompt-submit hook on stdin (`session_id`, `cwd`, `hook_event_name`, `prompt`). Out:
`{"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": TEXT}}`. Each page is given once a
session, and again only when its text has changed or the agent has lost its context (a SessionStart hook whose source is
`clear` or `compact`).

What a session has been given is `memory/.sessions/SHA.json`: `{"schema": 1, "pages": {PATH: SHA}}`; files older than
a week go. The whole process has 200 ms, so this module loads no library that it can do without, and counts no tokens: a
page that the cache has no count for is estimated, and its cost marked `~`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nightschool.sek.counting import Counter
from nightschool.sek.router import FALLBACK, RANKED, Loaded, Route, Router
from nightschool.sek.terms import Terms
from nightschool.sek.tree import MEMORY, Tree

SESSIONS = f"{MEMORY}/.sessions"
KEPT_SECONDS = 7 * 86_400
MOST_CHARACTERS = 9_500
"""Claude Code hands 10,000 characters of a hook to the model, and puts the rest into a file."""
LOST = frozenset({"clear", "compact"})
"""Sources of a SessionStart after which the pages are no longer in the agent's context."""


def main() -> int:
    """Answer one hook; a fault is silent, and shown only to those who mend nightschool."""
    try:
        answer = respond(json.load(sys.stdin))
        if answer is not None:
            sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
            sys.stdout.flush()
    except BaseException as error:  # whatever it is, the agent goes on without the pages
        if os.environ.get("NIGHTSCHOOL_DEBUG"):
            print(f"sek context: {type(error).__name__}: {error}", file=sys.stderr)
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a broken pipe must not break again at exit
    return 0


def respond(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer to one hook, or None if there is nothing to say."""
    tree = Tree.find(Path(told.get("cwd") or os.environ.get("CLAUDE_PROJECT_DIR") or "."))
    session = Session(tree, str(told.get("session_id") or ""))
    if told.get("hook_event_name") == "SessionStart":
        if told.get("source") in LOST:
            session.forget()
        return None
    prompt = told.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return None
    notes = _tidied(tree)
    tree = Tree(tree.root)
    text, tags = _pages(tree, prompt, session)
    notes += _used(tree, tags, session.name)
    text = "\n".join([*notes, text]) if text else "\n".join(notes)
    if not text:
        return None
    return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}


class Session:
    """What one session of an agent has been given."""

    def __init__(self, tree: Tree, name: str) -> None:
        """A session without a name remembers nothing."""
        self.name = name
        self.folder = tree.root / SESSIONS
        self.file = self.folder / f"{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}.json"
        self.pages: dict[str, str] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            self.pages = dict(json.loads(self.file.read_bytes())["pages"]) if name else {}

    def save(self) -> None:
        """Remember, and let go of sessions that ended long ago."""
        if not self.name:
            return
        from nightschool.disk.files import write_atomic

        if not self.file.exists():
            self._sweep()
        write_atomic(self.file, json.dumps({"schema": 1, "pages": self.pages}, ensure_ascii=False) + "\n")

    def forget(self) -> None:
        """The agent has lost what it was given."""
        with suppress(OSError):
            self.file.unlink()

    def _sweep(self) -> None:
        with suppress(OSError):
            for entry in os.scandir(self.folder):
                if entry.name.endswith(".json") and entry.stat().st_mtime < time.time() - KEPT_SECONDS:
                    Path(entry.path).unlink()


def render(route: Route, texts: Mapping[str, str], guessed: frozenset[str] = frozenset()) -> str:
    """The pages as the agent sees them: each with its path and why it is here, then what was left out."""
    parts: list[str] = []
    left = [*route.dropped]
    room = MOST_CHARACTERS
    for load in route.loads:
        part = f"<page path={json.dumps(load.path)} why={json.dumps(_why(load))}>\n{_inner(texts[load.path])}\n</page>"
        if len(part) > room:
            left.append(load)
            continue
        room -= len(part)
        parts.append(part)
    if left:
        shown = ", ".join(f"{load.path} ({'~' * (load.path in guessed)}{load.tokens} tokens)" for load in left[:8])
        parts.append(f"Also relevant, but past the budget; read what you need: {shown}")
    return "\n".join(["Project knowledge for this prompt (SEK):", *parts]) if parts else ""


def _pages(tree: Tree, prompt: str, session: Session) -> tuple[str, list[str]]:
    """The text for the agent, and the tags of the rules in it."""
    index = Terms.load(tree)
    # Counts of the cache are taken as they are, whatever tokenizer made them; what it lacks is guessed.
    router = Router.over(tree, index, Counter(index.counter, None))
    texts: dict[str, str] = {}
    known = _unchanged(tree, session)
    route = router.route(prompt, without=known)
    for load in route.loads:
        texts[load.path] = tree.read(load.path)
    text = render(route, texts, frozenset(page.path for page in index.pages if page and page.tokens < 0))
    given = [path for path in texts if f"<page path={json.dumps(path)} " in text]
    if given:
        session.pages |= {path: _sha(texts[path]) for path in given}
        with suppress(Exception):
            session.save()
    with suppress(Exception):
        index.save(tree, None)
    return text, _tags([texts[path] for path in given], given)


def _unchanged(tree: Tree, session: Session) -> set[str]:
    """Pages that the session has, as they are now."""
    same = set()
    for path, sha in session.pages.items():
        with suppress(Exception):
            if _sha(tree.read(path)) == sha:
                same.add(path)
    return same


def _tags(texts: list[str], paths: list[str]) -> list[str]:
    """The tags of rules that are defined in the pages."""
    if not any(re.search(r"\[[A-Z][A-Z0-9]*-", text) for text in texts):
        return []
    from nightschool.sek.rules import find

    return list(dict.fromkeys(rule.tag for text, path in zip(texts, paths, strict=True) for rule in find(text, path)))


def _tidied(tree: Tree) -> list[str]:
    """What is due in the inbox; its messages."""
    try:
        from nightschool.sek.commands import tidy

        return list(tidy(tree))
    except Exception:
        return []  # a broken inbox is told by lint; the pages are right all the same


def _used(tree: Tree, tags: list[str], session: str) -> list[str]:
    """Record the use of rules; what is to be announced."""
    try:
        from nightschool.sek.commands import used

        return list(used(tree, tags, session)) if tags and session else []
    except Exception:
        return []


def _why(load: Loaded) -> str:
    if load.trigger == FALLBACK:
        return "nothing else fitted; the index"
    return f"words: {load.keyword}" if load.trigger == RANKED else f"{load.trigger}: {load.keyword}"


def _inner(text: str) -> str:
    """The text of a page, which cannot close its own tag."""
    return text.strip("\r\n").replace("</page", "<\\/page")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
