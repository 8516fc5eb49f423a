"""`nightschool sek`: standing instructions that stay small, and knowledge that grows by itself. Each file adds its commands."""

from __future__ import annotations

import importlib
import importlib.util

import typer

app = typer.Typer(
    help="Keep an agent's standing instructions small, and let its knowledge grow by itself.", no_args_is_help=True
)
PARTS = ("sek_import", "sek_agent", "sek_life", "sek_mcp")

for _part in PARTS:
    if importlib.util.find_spec(f"nightschool.cli.{_part}"):
        importlib.import_module(f"nightschool.cli.{_part}").add(app)
