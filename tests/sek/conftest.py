"""Trees that a test plants in a temporary folder, and a counter that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nightschool.sek.tree import Tree

ROUTING = """\
triggers:
  - id: frontend
    keywords: [react, ui component, tsx]
    load: [wiki/rules/frontend.md]
  - id: llm-cost
    keywords: [pricing, calc_cost]
    load: [wiki/references/pricing.md]
"""
PAGES = {
    "AGENTS.md": "# Me\n",
    "wiki/_routing.md": ROUTING,
    "wiki/_index.md": "- pages\n",
    "wiki/rules/frontend.md": "# Components\n\n[FE-001] Buttons are drawn with the design system, never by hand.\n",
    "wiki/rules/database.md": "# Migrations\n\nRun alembic before the server starts; a lock lasts ten seconds.\n",
    "wiki/references/pricing.md": "# Prices\n\nA million tokens cost four dollars on the large model.\n",
    "wiki/workflows/release.md": "# Releases\n\nTag the commit, build the wheel, upload it with twine.\n",
}
Plant = Callable[..., Tree]


class Words:
    """A word is a token."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write files (text or bytes) over those of PAGES and return the tree; None leaves one out."""

    def make(files: Mapping[str, str | bytes | None] | None = None, **kwargs: str) -> Tree:
        root = tmp_path / kwargs.get("name", "tree")
        for path, text in {**PAGES, **(files or {})}.items():
            if text is not None:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
        return Tree(root)

    return make


@pytest.fixture
def words() -> Words:
    return Words()
