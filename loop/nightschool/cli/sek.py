"""`nightschool sek`: standing instructions that stay small, and knowledge that grows by itself.

Each sek_*.py adds its commands.
"""

from __future__ import annotations

import typer

from nightschool.cli import sek_agent, sek_import, sek_life, sek_mcp

app = typer.Typer(
    help="Keep an agent's standing instructions small, and let its knowledge grow by itself.", no_args_is_help=True
)
for part in (sek_import, sek_agent, sek_life, sek_mcp):
    part.add(app)
