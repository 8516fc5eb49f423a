"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The workspace (default: the nearest one, as git does).", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="ALIAS", help="A name in models.toml, for every role.", envvar="NIGHTSCHOOL_MODEL"
    ),
]
ModelsFile = Annotated[
    Path | None,
    typer.Option("--models", metavar="FILE", help="A models.toml to look in first.", envvar="NIGHTSCHOOL_MODELS"),
]
Backend = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="mlx, vllm, transformers or openai (default: what fits this machine)."),
]
SekDir = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", help="A folder in the SEK tree (default: this one).", show_default=False),
]
HERE = TREE = Path()
ROLES = ("student", "maintainer", "proposer")


def every_role(model: str | None) -> dict[str, str] | None:
    """`--model` as the roles of a configuration."""
    return dict.fromkeys(ROLES, model) if model else None
