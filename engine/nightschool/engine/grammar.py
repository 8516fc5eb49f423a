"""Grammars: what a reply must be, the same on every backend, and with a known longest reply.

A `Grammar` is llguidance Lark text with its bounds; one that is not bounded cannot be built. `terms.py` says what a
reply may be, `constraint.py` turns grammars into token masks, `accepts` judges a whole text afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.engine import lark, schema, terms
from nightschool.engine.nodes import Node
from nightschool.engine.terms import Term
from nightschool.engine.types import EngineError

_copying = Lock()
"""Replies of a server are judged in the threads that they come in by."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A bounded language of replies."""

    lark: str
    """The grammar in llguidance's Lark; it holds the reply only, never the thinking before it."""
    limit: int
    """Bytes of the longest accepted reply + 1; so many tokens are always enough, the end of text included."""
    shortest: int
    """Bytes of the shortest accepted reply."""
    portable: dict[str, Any] | None = field(default=None, compare=False)
    """The nearest JSON schema, for servers that take nothing else; `None` if none comes near."""
    node: Node | None = field(default=None, compare=False, repr=False)
    """The language itself, from which the guard takes shortest closings; `None` for Lark written by hand."""

    @classmethod
    def build(cls, term: Term) -> Grammar:
        """The grammar of a term. Raises ValueError if nothing satisfies it, Problem if it is not bounded."""
        if term.impossible:
            raise ValueError("nothing satisfies this grammar: an enum that it needs is empty")
        if term.node.longest == math.inf:
            raise Problem("the grammar has no longest reply", "bound every text and every repetition in it")
        node = term.node
        return cls(lark.render(node), int(node.longest) + 1, int(node.shortest), term.schema, node)

    @classmethod
    def from_schema(cls, source: Mapping[str, Any]) -> Grammar:
        """The grammar of a JSON schema. Raises Problem, naming the path, for what is unbounded or unknown."""
        return cls.build(schema.to_term(source))

    @classmethod
    def from_type(cls, output_type: Any) -> Grammar:
        """The grammar of a Python type: Pydantic models, and whatever else Outlines knows as an output type."""
        return cls.build(schema.type_to_term(output_type))

    @classmethod
    def regex(cls, expression: str, max_chars: int | None = None) -> Grammar:
        """Replies that match a regular expression as a whole."""
        return cls.build(terms.regex(expression, max_chars))

    @classmethod
    def choice(cls, options: Iterable[str]) -> Grammar:
        """One of these texts, as they are: not quoted."""
        return cls.build(terms.plain(options))

    @classmethod
    def from_lark(cls, text: str, limit: int | None) -> Grammar:
        """A Lark grammar written by hand; its author vouches for the limit, the bytes of its longest reply + 1."""
        if limit is None or limit < 1:
            raise Problem("a Lark grammar needs a limit", "give the bytes of its longest reply + 1 as `limit`")
        source = lark.HEADER + text
        _prototype(source)
        return cls(source, limit, limit - 1)


def accepts(grammar: Grammar, text: str) -> bool:
    """Whether the whole text is a reply of the grammar, by a fresh byte-level matcher."""
    return reach(grammar, text)[1]


def reach(grammar: Grammar, text: str) -> tuple[int, bool]:
    """How many of the text's bytes a reply may begin with, and whether the whole text is one."""
    with _copying:
        fresh = _prototype(grammar.lark).deep_copy()
    data = list(text.encode("utf-8", "surrogatepass"))
    taken = int(fresh.try_consume_tokens(data))
    if fresh.is_error():
        raise matcher_failed(fresh)
    return taken, bool(taken == len(data) and fresh.is_accepting())


def matcher_failed(broken: Any) -> EngineError:
    """An engine error: a matcher that fails by itself is never a verdict on a reply."""
    return EngineError(f"the grammar's matcher failed: {first_line(broken)}", "simplify the grammar and try again")


def first_line(broken: Any) -> str:
    """What a matcher complains about, without its dump of the grammar."""
    return str(broken.get_error()).partition("\n")[0][:300]


def matcher(tokenizer: Any, source: str) -> Any:
    """A matcher at the start of a grammar. A grammar that does not compile is a Problem, never free text."""
    import llguidance

    limits = llguidance.LLParserLimits(verbose_errors=False, max_items_in_row=20_000, step_max_items=500_000)
    made = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(source), log_level=0, limits=limits)
    if made.is_error():
        raise Problem(f"the grammar does not compile: {first_line(made)}", "mend the grammar")
    return made


@lru_cache(maxsize=16)
def _prototype(source: str) -> Any:
    """A byte-level matcher at the start of a grammar; copied, never advanced."""
    return matcher(_byte_tokenizer(), source)


@lru_cache(maxsize=1)
def _byte_tokenizer() -> Any:
    import llguidance

    return llguidance.LLTokenizer("byte")
