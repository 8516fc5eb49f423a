"""`models check` for a model on a server: whether it answers, what it serves, how it takes grammars, and who counts."""

from __future__ import annotations

from nightschool.disk.errors import Problem
from nightschool.engine.backends import openai_probe
from nightschool.engine.backends.openai_engine import meet, miscounted
from nightschool.engine.backends.openai_grammar import IN_WORDS
from nightschool.engine.backends.openai_options import read_options
from nightschool.engine.backends.openai_talk import Talk
from nightschool.engine.model_folder import Finding
from nightschool.engine.models import ModelSpec


def check(spec: ModelSpec) -> list[Finding]:
    """Everything that can be wrong with a server, up to the first thing that is."""
    try:
        options = read_options(spec)
        talk = meet(spec, options)
    except Problem as problem:
        return [Finding("server", False, _said(problem))]
    served = talk.served
    findings = [
        Finding("server", True, f"{talk.wire.address}, {served}"),
        Finding("model", True, served.model),
        Finding("context", True, f"{spec.context} tokens{_of(served.context)}"),
    ]
    try:
        found = openai_probe.choose(talk, options, lambda line: None)
    except Problem as problem:
        return [*findings, Finding("grammar", False, _said(problem))]
    return [*findings, Finding("grammar", True, f"it {IN_WORDS[found.form]}"), _counts(talk, found)]


def _counts(talk: Talk, found: openai_probe.Found) -> Finding:
    wrong = miscounted(talk, found)
    right = f"{talk.counter.count(openai_probe.ASKED)} tokens for a question of one message"
    return Finding("counts", wrong is None, wrong or right)


def _of(context: int | None) -> str:
    return "" if context is None else f" of {context}"


def _said(problem: Problem) -> str:
    return f"{problem.what}; {problem.advice}"
