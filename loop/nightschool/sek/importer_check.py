"""The importer's own proof: every paragraph of the sources stands in what it writes, once.

Texts are compared in their words: white space, the mark of a list item and the tag before a rule do not count. A failure
is an error of the importer, and nothing is written then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from nightschool.sek.blocks import Block, blocks, inside, items

if TYPE_CHECKING:
    from nightschool.sek.importer_read import Source

COPY = 40
"""Characters from which two equal paragraphs are copies; shorter ones, as labels, may repeat."""
_MARKER = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_OWN_TAG = re.compile(r"^\[[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+\] ")


class Dropped(Protocol):
    """A paragraph that was found twice."""

    @property
    def text(self) -> str:
        """What it says."""


def normal(text: str) -> str:
    """A paragraph as it is compared."""
    return " ".join(_OWN_TAG.sub("", _MARKER.sub("", text.strip())).split())


def paragraphs(text: str) -> list[str]:
    """Every block of a text, and every item of a list, as they are compared."""
    return [normal(part) for block in blocks(text) for part in _parts(block) if normal(part)]


def check(sources: Sequence[Source], files: Mapping[str, bytes | None], dropped: Iterable[Dropped]) -> None:
    """Raise if a paragraph of the sources is not in the files as often as it should be."""
    written = [raw.decode() for path, raw in files.items() if raw is not None and _is_text(path)]
    found = Counter(part for text in written for part in paragraphs(text))
    wanted = Counter(part for source in sources for part in paragraphs(source.text))
    wanted -= Counter(normal(each.text) for each in dropped)
    lost = {part: times - found[part] for part, times in wanted.items() if found[part] < times}
    whole = "\n".join(normal(text) for text in written)
    missing = [part for part in lost if part not in whole]
    doubled = [part for part in wanted if len(part) >= COPY and found[part] > wanted[part]]
    if missing or doubled:
        told = (missing or doubled)[0][:120]
        raise AssertionError(f"the import would {'lose' if missing else 'double'} text; nothing was written: {told!r}")


def _parts(block: Block) -> list[str]:
    if block.kind == "list":
        return [item.text for item in items(block)]
    if block.kind == "tag":
        opening, between, closing = inside(block)
        return [opening, *(part for inner in between for part in _parts(inner)), closing]
    return [block.text] if block.kind != "blank" else []


def _is_text(path: str) -> bool:
    return path.endswith(".md") and not path.endswith(("_routing.md", "_index.md"))
