"""How an answer is read: normal form, numbers, options, JSON, sections. Pure text in, plain values out.

Nothing here runs without an end on any text. Scores and reasons are left to the graders, patterns to `patterns`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal, DecimalException
from typing import Any

# An ASCII letter before the digits makes a name of them: E417, H2O, m2. A CJK one does not.
_NUMBER = re.compile(
    r"(?:(?<![\w)])[-+−])?(?<![A-Za-z_\d])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+|(?=\.\d))(?:\.\d+)?(?:[eE][-+]?\d+)?"
)
_FENCED = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)


def normalise(text: str) -> str:
    """Case, compatibility forms (full width, ligatures) and white space do not count."""
    for _ in range(2):  # casefold can undo NFKC and the other way round; the second round settles it
        text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def quoted(text: str, limit: int = 80) -> str:
    """The text in double quotes, on one line, cut at `limit` characters, without control characters."""
    flat = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in " ".join(text.split()))
    return f'"{flat if len(flat) <= limit else flat[: limit - 1] + "…"}"'


def last_number(text: str) -> Decimal | None:
    """The last number that the text names: sign, thousands commas, decimals, exponent; currency and % are ignored."""
    found = None
    for match in _NUMBER.finditer(text):
        found = match.group()
    try:
        return None if found is None else Decimal(found.replace(",", "").replace("−", "-"))
    except DecimalException:
        return None


def last_named(text: str, options: Iterable[str]) -> str | None:
    """The option that is named last, as a word of its own; of two that end at one place the longer.

    Case counts for options of one letter only: `a` is a word, `A` a label.
    """
    options = tuple(options)
    end, _, last = max((_last_end(text, option), len(option), option) for option in options)
    if end >= 0:
        return last
    bare = normalise(text).strip("()[]{}.,:;!\"'`* ")
    return next((option for option in options if normalise(option) == bare), None)


def _last_end(text: str, option: str) -> int:
    """Where the last mention of the option ends, or -1."""
    label = len(option) == 1
    text = " ".join(unicodedata.normalize("NFKC", text).split()) if label else normalise(text)
    wanted = option if label else normalise(option)
    start = text.rfind(wanted)
    while start >= 0 and not _alone(text, start, start + len(wanted)):
        start = text.rfind(wanted, 0, start + len(wanted) - 1)
    return start + len(wanted) if start >= 0 else -1


def _alone(text: str, start: int, end: int) -> bool:
    """Whether no letter that has a case, no digit and no accent goes on before or after. CJK writes words without gaps."""
    return not any(
        char == "_" or char.isdigit() or char.lower() != char.upper() or unicodedata.combining(char)
        for char in (text[start - 1 : start], text[end : end + 1])
        if char
    )


def parse_json(text: str) -> Any:
    """The JSON value that is the whole answer, a Markdown fence around it aside. ValueError when there is none."""
    fenced = _FENCED.fullmatch(text)
    return json.loads(fenced.group(1) if fenced else text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def canonical(value: Any, *, ordered: bool) -> str:
    """Equal text for equal values: keys in any order, 1 equals 1.0, and lists in any order unless `ordered`."""
    return json.dumps(_settled(value, ordered), sort_keys=True)


def _settled(value: Any, ordered: bool) -> Any:
    if isinstance(value, dict):
        return {key: _settled(item, ordered) for key, item in value.items()}
    if isinstance(value, list):
        items = [_settled(item, ordered) for item in value]
        return items if ordered else sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def section(text: str, title: str) -> str | None:
    """What stands under the Markdown heading of this title (any level) up to the next heading; None without one."""
    body: list[str] | None = None
    for line in text.splitlines():
        heading = _heading(line.strip())
        if heading is not None and body is not None:
            break
        if heading is not None and normalise(heading) == normalise(title):
            body = []
        elif body is not None:
            body.append(line)
    return None if body is None else "\n".join(body).strip()


def _heading(line: str) -> str | None:
    title = line.lstrip("#")
    return title.strip().rstrip("#: ") if 1 <= len(line) - len(title) <= 6 and title[:1].isspace() else None
