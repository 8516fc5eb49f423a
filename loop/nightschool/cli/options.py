"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[Path, typer.Argument(help="The workspace (default: the nearest one, as git does).", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help="Alias of models.toml, for every role.", envvar="NIGHTSCHOOL_MODEL")
]
ModelsFile = Annotated[
    Path | None, typer.Option("--models", help="A models.toml to look in first.", envvar="NIGHTSCHOOL_MODELS")
]
Backend = Annotated[
    str | None, typer.Option("--backend", help="mlx, vllm, transformers (default: what fits this machine).")
]
HERE = Path()
