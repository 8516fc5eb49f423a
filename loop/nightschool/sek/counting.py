"""How many tokens a text costs, by the tokenizer of the model that plays the student; without one, an estimate that says so.

Only the `tokenizers` library is loaded, and only when something is counted. Control tokens that a text spells are counted
as the one token that they would be.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem

ESTIMATED = "estimated"
"""The name of the counter that has no tokenizer."""
_ASCII, _OTHER = 3.5, 1.35
"""Bytes of a token: measured on English and on Chinese instruction files with the shipped model's tokenizer."""


class Counter:
    """Counts with one tokenizer.json, which is loaded with the first text."""

    def __init__(self, name: str, file: Path | None) -> None:
        """`name` tells counts of one tokenizer from those of another; without a file it estimates."""
        self.name = name
        self.file = file
        self._tokenizer: Any = None

    @property
    def estimated(self) -> bool:
        """Whether there is no tokenizer."""
        return self.file is None

    def count(self, text: str) -> int:
        """Tokens of a text."""
        if self.file is None:
            return estimate(text)
        if self._tokenizer is None:
            self._tokenizer = _load(self.file)
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def counter(alias: str | None = None, cwd: Path | None = None) -> Counter:
    """The counter of a model (default: the student of the nearest models.toml); an estimate if it is not on this machine."""
    from nightschool.engine.models import load_models

    try:
        models = load_models(cwd=cwd)
        spec = models.get(alias or models.roles.student)
    except Problem:
        if alias:
            raise
        return Counter(ESTIMATED, None)
    file = spec.folder / "tokenizer.json"
    if not spec.ready or not file.is_file():
        return Counter(ESTIMATED, None)
    return Counter(f"{spec.alias}-{file.stat().st_size}", file)


def estimate(text: str) -> int:
    """Tokens of a text, guessed from its bytes."""
    plain = sum(char < "\x80" for char in text)
    return round(plain / _ASCII + (len(text.encode(errors="replace")) - plain) / _OTHER)


def _load(file: Path) -> Any:
    # The library starts as many threads as there are cores, which costs more than a page does.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:
        raise Problem(f"{file} is no tokenizer: {error}", "pull the model again") from None
