"""`nightschool bench compare | history`: kept records, and whether one is faster than another."""

from __future__ import annotations

import typer


def add(app: typer.Typer) -> None:
    """Add these commands to `nightschool bench`."""
