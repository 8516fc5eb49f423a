"""Regular expressions that strangers wrote, on text that a model wrote: bounded in length, memory and time.

The dialect is that of Python's `re`, flags inline: `(?i)`, `(?m)`. Where a pattern is searched is left to the caller.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import AfterValidator

from nightschool.loop.strict import Filled

MAX_LENGTH = 1_000
MAX_REPEATS = 10_000
SECONDS = 1.0


def found(pattern: str, text: str) -> bool | None:
    """Whether the pattern occurs in the text; None when the search took too long."""
    import regex

    try:
        return regex.search(pattern, text, timeout=SECONDS) is not None
    except TimeoutError:
        return None


def check(pattern: str) -> str:
    """The pattern itself; ValueError, with the reason, for one that `found` could not run."""
    import regex

    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"the pattern is longer than {MAX_LENGTH:,} characters")
    if _repeats(pattern) > MAX_REPEATS:
        raise ValueError(f"the pattern repeats something more than {MAX_REPEATS:,} times")
    try:
        regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern does not compile: {error}") from None
    return pattern


def _repeats(pattern: str) -> int:
    """An upper bound of how often {n} unrolls what is inside nested groups; compiling takes that much memory."""
    counted = [
        (group, int(most or least or 0)) for group, least, most in re.findall(r"(\)?)\{(\d*)(?:,(\d*))?\}", pattern)
    ]
    groups = math.prod(max(count, 1) for group, count in counted if group)
    return groups * max((count for group, count in counted if not group), default=1)


Pattern = Annotated[Filled, AfterValidator(check)]
