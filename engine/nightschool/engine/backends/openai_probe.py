"""How a server takes grammars, found out by trying: two requests that nobody answers by chance, for each way there is.

A server that ignores a grammar says so nowhere: it answers in free text, and with 200. So what it does is believed, not
what it says it can do. The second request is under what tells the ways apart: no text twice (Lark), an array (JSON schema).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nightschool.disk.errors import Problem
from nightschool.engine import terms
from nightschool.engine.backends.openai_body import Said
from nightschool.engine.backends.openai_grammar import FORMS, IN_WORDS, LARK, Form, settle
from nightschool.engine.backends.openai_line import Line
from nightschool.engine.backends.openai_options import Options, place
from nightschool.engine.backends.openai_talk import Talk
from nightschool.engine.backends.openai_wire import Refused
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Message, Request, Sampling

WORDS = ("kv7q-zeml-93", "p0wj-trud-58", "xh4b-olsy-16")
"""What a model would say of itself in no case."""
TOKENS = 160
"""White space, if a server puts any, included."""
ASKED = (Message("user", "Say hello."),)


@dataclass(frozen=True, slots=True)
class Found:
    """A way that works, and the prompt tokens that the server counted for ASKED."""

    form: Form
    prompt_tokens: int | None


def choose(talk: Talk, options: Options, say: Callable[[str], None]) -> Found:
    """The first way of those that are set that the server obeys; `talk` goes that way from now on.

    Raises Problem if it obeys none: `retry` must be chosen by a person, because it costs.
    """
    alias, did = talk.spec.alias, dict[str, str]()
    for form in FORMS[options.grammar]:
        talk.form = form
        found = Found(form, None) if form == "retry" else _try(talk, form)
        if isinstance(found, Found):
            say(f"{alias}: {talk.served.model} on {talk.wire.address}, {talk.served}, {IN_WORDS[form]}")
            return found
        did.setdefault("Lark" if form in LARK else "a JSON schema", found)
    told = "; ".join(f"under {kind} {what}" for kind, what in did.items())
    raise Problem(
        f"the server of {alias} does not obey a grammar: {told}",
        f'start it so that it does (docs/servers.md), or write grammar = "retry" in {place(talk.spec)}',
    )


def _try(talk: Talk, form: Form) -> Found | str:
    """What was found, or what the server did instead."""
    tokens: list[int] = []
    for grammar in _grammars(form):
        try:
            said = talk.say(_request(grammar), Line())
        except Refused as refusal:
            if refusal.status in (400, 422, 501):
                return f"it is refused ({refusal.what})"
            raise
        if said.finish != "stop" or settle(grammar, said.text) is None:
            return f"it says {talk.wire.struck(_shown(said))}"
        tokens += [] if said.usage.prompt_tokens is None else [said.usage.prompt_tokens]
    # some servers leave out of the second count what they had read for the first
    return Found(form, max(tokens, default=None))


def _grammars(form: Form) -> Iterator[Grammar]:
    yield Grammar.build(terms.obj({"w": terms.choice(WORDS[:2])}))
    listed = terms.distinct(WORDS, 2, 2) if form in LARK else terms.array(terms.choice(WORDS), 2, 2)
    yield Grammar.build(terms.obj({"w": listed}))


def _request(grammar: Grammar) -> Request:
    return Request(ASKED, grammar, Sampling(max_tokens=TOKENS))


def _shown(said: Said) -> str:
    flat = " ".join(said.text.split())
    cut = "" if said.finish == "stop" else f" and no more in {TOKENS} tokens"
    return repr(flat if len(flat) <= 60 else f"{flat[:59]}…") + cut
