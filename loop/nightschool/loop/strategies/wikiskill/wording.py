"""Model text that says nothing, told from its form alone: no letter, one word over and over, the reply's own JSON.

Whether a text is true, or of any use, is left to the gate: what is refused here could be no sentence of any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nightschool.loop.answers import quoted
from nightschool.loop.strategies.asking import Unusable
from nightschool.loop.traces import Trace

REPLY_KEYS = frozenset(
    {
        *("edits", "create", "log", "op", "page", "target", "content", "evidence"),
        *("name", "kind", "scope", "problem", "root_cause", "fix"),
        *("thought", "action", "path", "proposal", "reason", "skill"),
        *("description", "when", "when_not", "instructions", "patterns", "examples"),
    }
)
"""Every key of the replies of the maintainer and the proposer."""
REPEATS = 3
"""A word said so often, and no other, is no sentence."""
_KEY = re.compile(r'"(\w+)"\s*:')
_STUTTER = re.compile(r"(\w{1,12}?)\1{3,}")


def quoted_keys(traces: Iterable[Trace]) -> frozenset[str]:
    """Keys that the tasks themselves write as JSON does: a lesson may speak of those."""
    texts = [text for trace in traces for text in (trace.prompt, trace.expected, trace.reason)]
    return frozenset(key for text in texts for key in re.findall(r'"(\w+)"', text))


def fault(text: str, allowed: frozenset[str] = frozenset()) -> str | None:
    """Why a text cannot be used, in one line; None when it can. `allowed`: keys that its subject has."""
    if not any(char.isalpha() for char in text):
        return f"the text {quoted(text)} has no letter"
    words = re.findall(r"\w+", text.casefold())
    if (len(words) >= REPEATS and len(set(words)) == 1) or (len(words) == 1 and _STUTTER.fullmatch(words[0])):
        return f"the text {quoted(text)} says one thing over and over"
    if leaked := sorted({*_KEY.findall(text)} & REPLY_KEYS - allowed):
        return f"the text {quoted(text)} holds the key {quoted(leaked[0])} of the reply itself"
    return None


def refuse(texts: Sequence[str], allowed: frozenset[str]) -> None:
    """Raise Unusable for the first text that cannot be used."""
    for text in texts:
        if reason := fault(text, allowed):
            raise Unusable(reason)
