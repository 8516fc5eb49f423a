"""The MCP server, driven by the protocol's own client."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from nightschool.disk.errors import Problem
from nightschool.sek import bootstrap, inbox, record
from nightschool.sek.transaction import events_of
from nightschool.sek.tree import USAGE, Tree

pytest.importorskip("mcp", reason="the extra sek is not installed")
Plant = Callable[..., Tree]


def talk(root: Path, conversation: Callable[[Any], Awaitable[None]], *options: str) -> None:
    """A real server process, and a real client."""
    import os

    from mcp import ClientSession, StdioServerParameters, stdio_client

    async def main() -> None:
        command = ["-m", "nightschool.cli", "sek", "mcp", "--dir", str(root), *options]
        server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        with anyio.fail_after(120):
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                await conversation(session)

    anyio.run(main)


async def call(session: Any, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    text = "\n".join(part.text for part in result.content)
    return f"error: {text}" if result.is_error else text


def test_a_life_over_the_protocol(plant: Plant) -> None:
    tree = plant()
    said = {"topic": "stripe retries", "kind": "unexpected", "expected": "once", "got": "twice", "where": "hooks.py"}

    async def first(session: Any) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {"route", "read", "register", "promote", "revoke", "search"}
        assert all(tool.description for tool in tools.values())
        kinds = tools["register"].input_schema["properties"]["kind"]["enum"]
        assert tuple(kinds) == inbox.KINDS
        assert await call(session, "register", **said) == "Registered: stripe retries (unexpected)"
        assert "it takes 2 sessions" in await call(session, "promote", topic="stripe retries")

    async def second(session: Any) -> None:
        told = await call(session, "register", **said)
        assert told.endswith("📚 Promoted: [STRIPE-RETRIES-001] -> wiki/rules/stripe-retries.md")
        found = json.loads(await call(session, "route", text="why do stripe retries happen"))
        assert found["pages"][0]["path"] == "wiki/rules/stripe-retries.md"
        page = await call(session, "read", path="wiki/rules/stripe-retries.md")
        assert page.startswith("🆕 Using recently promoted: [STRIPE-RETRIES-001]\n## [STRIPE-RETRIES-001]")
        assert (await call(session, "read", path="wiki/rules/stripe-retries.md")).startswith("## [")
        hits = json.loads(await call(session, "search", text="stripe-retries-001"))
        assert hits["rules"][0]["tag"] == "STRIPE-RETRIES-001"
        told = await call(session, "revoke", tag="STRIPE-RETRIES-001", reason="wrong")
        assert told.startswith("Revoked: [STRIPE-RETRIES-001]")

    talk(tree.root, first)
    talk(tree.root, second, "--session", "the second")
    assert [event.kind for event in events_of(tree)] == ["registered", "registered", "promoted", "revoked"]
    (use,) = record.read_usage(tree.inside(USAGE))
    assert (use.tag, use.session) == ("STRIPE-RETRIES-001", "the second")


def test_no_tool_touches_l0_or_leaves_the_wiki(plant: Plant) -> None:
    tree = plant({"AGENTS.md": bootstrap.with_critical("# Me\n", "[FE-001] Buttons.")})
    before = tree.read("AGENTS.md")

    async def conversation(session: Any) -> None:
        told = await call(session, "revoke", tag="FE-001", reason="wrong")
        assert told.startswith("error: ") and "only a yes that a person types" in told
        for path in (
            "../secret",
            "/etc/passwd",
            "wiki/../AGENTS.md",
            "memory/log.jsonl",
            "AGENTS.md",
            "wiki/rules/no.md",
        ):
            told = await call(session, "read", path=path)
            assert told.startswith("error: ") and "is no p" in told
        told = await call(session, "register", topic="#", kind="unexpected", expected="a", got="b")
        assert told.startswith("error: an entry needs a topic") or "an entry needs a topic" in told
        assert "error" in await call(session, "register", topic="a", kind="rumour", expected="a", got="b")

    talk(tree.root, conversation)
    assert tree.read("AGENTS.md") == before


def test_without_the_package_it_says_what_to_install(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    from nightschool.sek import server

    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(Problem, match="the package mcp is not installed") as caught:
        server.build(plant().root)
    assert "nightschool[sek]" in caught.value.advice
