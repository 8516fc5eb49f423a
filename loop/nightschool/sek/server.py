"""The MCP server: the tree for every agent that speaks the Model Context Protocol, over stdio.

Tools: route, read, register, promote, revoke, search. One process is one session of one agent, unless NIGHTSCHOOL_SESSION
names it. What is given out by `read` is recorded as used; 📚 and 🆕 lines travel in the answers. There is no tool that
touches L0: a critical rule takes a yes that a person types in a terminal (core.py).

The `mcp` package is loaded only when the server is built.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nightschool.disk.errors import Problem
from nightschool.sek import commands, rules, views
from nightschool.sek.record import Clock, utc_now
from nightschool.sek.router import Router
from nightschool.sek.tree import INDEX, Tree

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

Kind = Literal["unexpected", "workaround", "undocumented-api", "correction"]
INSTRUCTIONS = """\
Project knowledge (SEK). Before a task: route(text), then read the pages it names. Call register, unasked, when something \
behaves unexpectedly, when you find a workaround, when an API does what its documentation does not say, or when you are \
corrected; search first. revoke a rule that proves wrong. Repeat 📚 and 🆕 lines in your answer."""
SESSION = "NIGHTSCHOOL_SESSION"


class Tools:
    """What the tools do, without the protocol."""

    def __init__(self, root: Path, session: str | None = None, now: Clock = utc_now) -> None:
        """`root`: a folder in the tree."""
        self._root = Tree.find(root).root
        self._session = session or os.environ.get(SESSION) or f"mcp-{secrets.token_hex(4)}"
        self._now = now

    def route(self, text: str, budget: int | None = None) -> dict[str, Any]:
        """Which pages of the project's wiki to read for a task, why each, and its tokens. Give the task's own words."""
        notes: tuple[str, ...] = ()
        with suppress(Problem):  # a broken inbox must not keep the pages back; lint tells of it
            notes = commands.tidy(self._tree, self._now)
        found = Router.load(self._tree).route(text, budget)
        pages = [
            {"path": one.path, "tokens": one.tokens, "why": f"{one.trigger}: {one.keyword}"} for one in found.loads
        ]
        past = [{"path": one.path, "tokens": one.tokens} for one in found.dropped]
        told = {"pages": pages, "past_the_budget": past, "total_tokens": found.total_tokens, "index": found.fallback}
        return {**told, "messages": list(notes)}

    def read(self, path: str) -> str:
        """One page of the wiki, by the path that route, search or the index gave."""
        tree = self._tree
        if path not in {INDEX, *tree.pages()} and not _is_index(path):
            raise Problem(f"{path!r} is no page of the wiki", "route names the pages, and so does wiki/_index.md")
        text = tree.read(path)
        tags = [rule.tag for rule in rules.find(text, path)]
        notes = commands.used(tree, tags, self._session, self._now)
        return "\n".join([*notes, text])

    def register(self, topic: str, kind: Kind, expected: str, got: str, where: str = "") -> str:
        """Draft an entry in the inbox: a topic in a few words, what was expected, what came instead, and where."""
        done = commands.register(self._tree, topic, kind, self._session, expected, got, where, self._now)
        return "\n".join(done.messages)

    def promote(self, topic: str | None = None) -> str:
        """Promote the drafts of a topic to a rule, or all that are ripe: two sessions or three entries of one topic."""
        return "\n".join(commands.promote(self._tree, topic, None, self._now).messages) or "Nothing is ripe"

    def revoke(self, tag: str, reason: str) -> str:
        """Remove a rule that proved wrong, by its tag. Its text is kept in the log. Critical rules take a person."""
        return "\n".join(commands.revoke(self._tree, tag, reason, self._now).messages)

    def search(self, text: str) -> dict[str, Any]:
        """Rules by their tag or by words: look here before you register or write a rule."""
        hits = views.search(self._tree, text)
        return {
            "rules": [{"tag": hit.tag, "path": hit.path, "line": hit.line, "text": hit.text.strip()} for hit in hits]
        }

    @property
    def _tree(self) -> Tree:
        return Tree(self._root)


def build(root: Path, session: str | None = None, now: Clock = utc_now) -> MCPServer[Any]:
    """The server; a Problem where the `mcp` package is not installed."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise Problem("the package mcp is not installed", "pip install 'nightschool[sek]'") from error
    tools = Tools(root, session, now)
    server: MCPServer[Any] = MCPServer("nightschool", instructions=INSTRUCTIONS, log_level="ERROR")
    for tool in (tools.route, tools.read, tools.register, tools.promote, tools.revoke, tools.search):
        server.add_tool(_telling(tool))
    return server


def _telling(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool with a Problem told to the agent as what it is."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except Problem as error:
            raise ToolError(f"{error.what}; {error.advice}") from None

    return call


def _is_index(path: str) -> bool:
    return path.startswith("wiki/") and path.endswith("/_index.md") and path.count("/") == 2
