"""A new tree, for the agent that will work with it: L0, an empty routing table, the index, the inbox, and the commands.

What is there already is kept as it is. Commands are files of the agent's own kind: `.claude/commands/NAME.md` (Claude
Code), `.gemini/commands/NAME.toml` (Gemini CLI), `.agents/skills/NAME/SKILL.md` (Codex, and every agent that knows skills).
L0 tells the whole conveyor, so that an agent which can only read and write files can use it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nightschool.disk.errors import Problem, nearest
from nightschool.disk.files import write_atomic
from nightschool.sek.bootstrap import render as render_bootstrap
from nightschool.sek.index import render as render_index
from nightschool.sek.routing import Routing, rendered
from nightschool.sek.terms import Counts
from nightschool.sek.tree import DEFAULT_CATEGORIES, INBOX, MEMORY, ROUTING, WIKI, Tree

BOOTSTRAPS = {"claude": "CLAUDE.md", "codex": "AGENTS.md", "gemini": "GEMINI.md", "generic": "AGENTS.md"}
IGNORED = ".lock\n.pending.json\n.sessions/\nterms.json\n"
"""What of memory/ belongs to this machine and not into git."""
ABOUT = {
    "rules": "what to do, and what never to do",
    "references": "facts: APIs, limits, formats",
    "architecture": "how it is built, and why",
    "workflows": "how things are done, step by step",
}
CONVEYOR = """\
- Every task: load what `wiki/_routing.md` names for its words (`nightschool route "TASK"`; a hook may have done it).
  Nothing fits: read `wiki/_index.md`.
- Write an entry to `memory/inbox.md` (/register), unasked, when
  1. something behaves unexpectedly (kind unexpected),
  2. I find a workaround (workaround),
  3. an API does what its documentation does not say (undocumented-api),
  4. I am corrected (correction).
- Three lines an entry: `- [2026-01-31] topic · kind · session`, `  expected: ... got: ...`, `  where: ...`
- The same topic again: /promote. A rule that proves wrong: /revoke TAG. I repeat 📚 and 🆕 lines in my answer.
- This file is changed only by a person."""
"""The Triggers section of L0: what to load when, and when to write an entry."""


@dataclass(frozen=True, slots=True)
class _Command:
    about: str
    hint: str
    text: str


COMMANDS = {
    "register": _Command(
        "Write an unexpected event, a workaround, an undocumented API behaviour or a correction to memory/inbox.md.",
        "what happened",
        """\
Register this in memory/inbox.md: {arguments}

1. Find the topic in a few words, what was expected, what came instead, and where (file, command or API).
2. Choose the kind: unexpected, workaround, undocumented-api or correction.
3. Run: nightschool sek register "TOPIC" --kind KIND --expected "..." --got "..." --where "..." --session SESSION
   SESSION names this conversation: use the same word until it ends, and a new one in the next.
   If the command is not there, append three lines to memory/inbox.md:
   - [YYYY-MM-DD] TOPIC · KIND · SESSION
     expected: ... got: ...
     where: ...
4. Repeat lines that begin with 📚 in your answer.
""",
    ),
    "promote": _Command(
        "Turn drafts of memory/inbox.md that came up again into rules of wiki/.",
        "a topic (optional)",
        """\
Promote what is ready in memory/inbox.md: {arguments}

Run: nightschool sek promote
It moves topics with entries from two sessions, or with three entries, to wiki/ and writes nothing twice.
Repeat lines that begin with 📚 in your answer. Never edit the Critical Rules yourself: that takes a person's yes, given at
a terminal with: nightschool sek core TAG
""",
    ),
    "revoke": _Command(
        "Take a rule that has proved wrong out of wiki/, with its reason.",
        "TAG and the reason",
        """\
Revoke this rule: {arguments}

Run: nightschool sek revoke TAG --reason "..."
It removes the rule everywhere, keeps its text in memory/log.jsonl, and the same text is not promoted again.
""",
    ),
}


@dataclass(frozen=True, slots=True)
class Made:
    """What was written, and what was there already."""

    written: tuple[str, ...]
    kept: tuple[str, ...]


def init(tree: Tree, agent: str, counter: Counts, language: str = "the language that I am asked in") -> Made:
    """Make what is missing of a tree for this agent."""
    if agent not in BOOTSTRAPS:
        raise Problem(f"no agent is called {agent!r}", nearest(agent, BOOTSTRAPS))
    bootstrap = tree.routing().bootstrap if tree.exists() else BOOTSTRAPS[agent]
    files = {bootstrap: new_bootstrap(tree.root.name, language), ROUTING: rendered(Routing(bootstrap=bootstrap))}
    if BOOTSTRAPS[agent] != bootstrap:
        files[BOOTSTRAPS[agent]] = f"@{bootstrap}\n" if agent != "codex" else f"Read and follow {bootstrap}.\n"
    files |= memory_files() | command_files(agent)
    written, kept = _write_missing(tree, files)
    for category in DEFAULT_CATEGORIES:
        (tree.root / WIKI / category).mkdir(parents=True, exist_ok=True)
    more, old = _write_missing(tree, render_index(tree, counter.count))
    return Made(tuple(written + more), tuple(kept + old))


def new_bootstrap(name: str, language: str) -> str:
    """L0 of a project that has no rules yet."""
    categories = "\n".join(f"- `{WIKI}/{category}/`: {ABOUT[category]}" for category in DEFAULT_CATEGORIES)
    return render_bootstrap(f"I work on {name}. I answer in {language}.", categories, CONVEYOR)


def memory_files() -> dict[str, str]:
    """An empty inbox, and what git is to leave out."""
    return {INBOX: "", f"{MEMORY}/.gitignore": IGNORED}


def command_files(agent: str) -> dict[str, str]:
    """/register, /promote and /revoke as commands of that agent."""
    if agent == "claude":
        return {f".claude/commands/{name}.md": _claude(command) for name, command in COMMANDS.items()}
    if agent == "gemini":
        return {f".gemini/commands/{name}.toml": _gemini(command) for name, command in COMMANDS.items()}
    return {f".agents/skills/{name}/SKILL.md": _skill(name, command) for name, command in COMMANDS.items()}


def _claude(command: _Command) -> str:
    text = command.text.format(arguments="$ARGUMENTS")
    head = f"description: {command.about}\nargument-hint: {json.dumps(f'[{command.hint}]')}\n"
    return f"---\n{head}allowed-tools: Bash(nightschool sek:*)\n---\n{text}"


def _gemini(command: _Command) -> str:
    text = command.text.format(arguments="{{args}}")
    return f"description = {json.dumps(command.about)}\nprompt = '''\n{text}'''\n"


def _skill(name: str, command: _Command) -> str:
    text = command.text.format(arguments=f"what the person said ({command.hint})")
    return f"---\nname: {name}\ndescription: {command.about} Use when asked to {name}.\n---\n{text}"


def _write_missing(tree: Tree, files: Mapping[str, str]) -> tuple[list[str], list[str]]:
    written: list[str] = []
    kept: list[str] = []
    for path, text in files.items():
        if tree.has(path):
            kept.append(path)
            continue
        write_atomic(tree.inside(path), text)
        written.append(path)
    return written, kept
