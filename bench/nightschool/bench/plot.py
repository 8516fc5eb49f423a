"""Records as pictures."""

from collections.abc import Sequence
from pathlib import Path

from nightschool.bench.result import Record


def write(records: Sequence[Record], path: Path) -> None:
    """Later."""
