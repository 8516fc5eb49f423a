"""Checks of the rules among themselves: one tag twice, the same said twice, the opposite said elsewhere, no reason given.

Rules that say nearly the same are found by their rare words, so that a thousand rules are not compared with each other. Two
that are alike and differ in never and always are pointed at; whether rules contradict each other is asked of a model when
one is at hand, under a grammar.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nightschool.sek import bootstrap, rules
from nightschool.sek.lint_base import Finding, Level
from nightschool.sek.lint_pages import FROM
from nightschool.sek.rules import Rule
from nightschool.sek.tree import Tree
from nightschool.sek.words import signature, similarity

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine

NEAR = 0.8
"""Rules this alike say the same."""
RELATED = 0.3
"""Rules less alike than this are about different things, and are not shown to a model."""
COMMON = 30
"""A word in more rules than this pairs none."""
MOST_ASKED = 200
"""Pairs that a model is asked about."""
LONGEST_ASKED = 1500
_FORBIDS = re.compile(
    r"\b(?:never|do not|don't|must not|avoid|forbidden|no longer)\b|禁止|不要|不可|不得|никогда|нельзя", re.I
)
_DEMANDS = re.compile(r"\b(?:always|must(?! not)|do use|required)\b|必須|必须|務必|一律|всегда", re.I)
_CAUSE = re.compile(
    r"^(?:Got|Root cause|Why|Reason)\b|\b(?:because|since|so that|otherwise|due to|causes?|fails?|breaks?)\b"
    r"|因為|因为|原因|以免|避免|потому",
    re.I | re.M,
)
_EVIDENCE = re.compile(r"^Evidence\b|\]\([^)]+\)|https?://|#\d+\b|\b[0-9a-f]{7,40}\b|`[\w./-]+:\d+`", re.I | re.M)


def all_rules(tree: Tree) -> list[Rule]:
    """Every rule of the pages, and the critical ones of L0."""
    found = [_whole(tree, rule) for rule in rules.every(tree)]
    path = tree.routing().bootstrap
    if tree.has(path):
        core = bootstrap.critical(tree.read(path))
        found += [Rule(each.tag or "", path, each.text, each.line - 1, each.line) for each in core]
    return found


def _whole(tree: Tree, rule: Rule) -> Rule:
    """An imported page of rules is one rule, whatever headings it has."""
    text = tree.read(rule.path)
    first = text.startswith("# ") and rule.start == 0
    return replace(rule, text=text, end=text.count("\n")) if first and FROM.search(text) else rule


def check(tree: Tree, engine: Engine | None = None) -> Iterator[Finding]:
    """All checks of the rules of a tree."""
    found = all_rules(tree)
    yield from _tags(found, tree)
    pairs = _pairs(found)
    yield from _twice(pairs)
    yield from _opposite(pairs)
    for rule in found:
        if rule.path != tree.routing().bootstrap:
            yield from reasons(rule, imported=bool(FROM.search(tree.read(rule.path))))
    if engine is not None:
        yield from _asked(engine, [pair for pair in pairs if pair[2] < NEAR])


def reasons(rule: Rule, *, imported: bool) -> Iterator[Finding]:
    """A rule tells what went wrong, and where that was seen; an imported one has its source for evidence."""
    lacking = [] if _CAUSE.search(rule.text) else ["root cause"]
    if not imported and not _EVIDENCE.search(rule.text):
        lacking.append("evidence")
    if lacking:
        what = f"[{rule.tag}] has no {' and no '.join(lacking)}"
        advice = "add `Got: ...` (what went wrong) and `Evidence: ...` (where and when)"
        why = "nobody can tell whether it still holds"
        yield Finding(rule.path, rule.line, "reason", what, why, advice, "note" if imported else "warning")


def _tags(found: Sequence[Rule], tree: Tree) -> Iterator[Finding]:
    """One tag, one rule; a rule that is core stands in L0 as well as on its page."""
    core = tree.routing().bootstrap
    first: dict[str, Rule] = {}
    for rule in found:
        other = first.setdefault(rule.tag, rule) if rule.tag else rule
        if other is rule or core in (rule.path, other.path):
            continue
        what = f"the tag [{rule.tag}] is already at {other.path}:{other.line}"
        yield Finding(rule.path, rule.line, "tag-twice", what, "a tag names one rule", "give one of them another tag")


def _pairs(found: Sequence[Rule]) -> list[tuple[Rule, Rule, float]]:
    """Rules that share rare words, with their likeness, the nearest first."""
    signs = [signature(rule.essence) for rule in found]
    spread = Counter(word for sign in signs for word in sign)
    having: dict[str, list[int]] = defaultdict(list)
    for number, sign in enumerate(signs):
        for word in sign:
            if 1 < spread[word] <= COMMON:
                having[word].append(number)
    shared = Counter((a, b) for numbers in having.values() for n, a in enumerate(numbers) for b in numbers[n + 1 :])
    pairs = []
    for (a, b), _ in shared.items():
        least = 2 * min(len(signs[a]), len(signs[b])) / ((len(signs[a]) + len(signs[b])) or 1)
        if least >= RELATED and found[a].tag != found[b].tag:
            likeness = similarity(found[a].essence, found[b].essence)
            if likeness >= RELATED:
                pairs.append((found[a], found[b], likeness))
    return sorted(pairs, key=lambda pair: (-pair[2], pair[1].path, pair[1].line))


def _twice(pairs: Sequence[tuple[Rule, Rule, float]]) -> Iterator[Finding]:
    for first, second, likeness in pairs:
        if likeness < NEAR or _polarity(first) != _polarity(second):
            continue
        same = " ".join(first.essence.split()) == " ".join(second.essence.split())
        said = "the same" if same else "nearly the same"
        what = f"[{second.tag}] says {said} as [{first.tag}] ({first.path}:{first.line})"
        advice = f"keep one: nightschool sek revoke {second.tag}"
        why = "the two drift apart, and both are paid for"
        code = "duplicate" if same else "near-duplicate"
        yield Finding(second.path, second.line, code, what, why, advice, "error" if same else "warning")


def _opposite(pairs: Sequence[tuple[Rule, Rule, float]]) -> Iterator[Finding]:
    for first, second, likeness in pairs:
        if likeness >= 0.6 and {_polarity(first), _polarity(second)} == {"forbids", "demands"}:
            yield _contradiction(first, second, "one says never, the other always", "warning")


def _polarity(rule: Rule) -> str:
    """Whether a short rule forbids or demands; a page that does both says neither."""
    forbids, demands = bool(_FORBIDS.search(rule.essence)), bool(_DEMANDS.search(rule.essence))
    return "both" if forbids == demands else "forbids" if forbids else "demands"


def _contradiction(first: Rule, second: Rule, reason: str, level: Level) -> Finding:
    what = f"[{second.tag}] may contradict [{first.tag}] ({first.path}:{first.line}): {reason}"
    advice = "say in one of them when it holds, or revoke the wrong one"
    why = "an agent obeys one, and breaks the other"
    return Finding(second.path, second.line, "contradiction", what, why, advice, level)


def _asked(engine: Engine, pairs: Sequence[tuple[Rule, Rule, float]]) -> Iterator[Finding]:
    """What a model says of related rules: each reply is a verdict and a reason, under a grammar."""
    from nightschool.engine import terms as t
    from nightschool.engine.engine import drive
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.types import Completion, Message, Request, Sampling

    grammar = Grammar.build(
        t.obj({"reason": t.text(120, 1), "verdict": t.choice(["agree", "unrelated", "contradict"])})
    )
    system = (
        "Two rules for a coding agent. Say whether an agent can obey both in the same task (agree), whether they are about "
        "different things (unrelated), or whether obeying one breaks the other (contradict)."
    )

    def ask(first: Rule, second: Rule):  # type: ignore[no-untyped-def]
        texts = (each.essence[:LONGEST_ASKED] for each in (first, second))
        shown = (
            "\n\n".join(f"Rule {n}: {text}" for n, text in enumerate(texts, start=1))
            + "\n\nReply with one JSON object."
        )
        request = Request(
            (Message("system", system), Message("user", shown)), grammar, Sampling(max_tokens=grammar.limit)
        )
        completion: Completion = yield request
        return json.loads(completion.text) if completion.valid else None

    asked = {str(n): (first, second) for n, (first, second, _) in enumerate(pairs[:MOST_ASKED])}
    replies = dict(drive(engine, {name: ask(*pair) for name, pair in asked.items()}))
    for name, (first, second) in asked.items():
        reply = replies[name]
        if reply and reply["verdict"] == "contradict":
            yield _contradiction(first, second, " ".join(reply["reason"].split()), "error")


__all__ = ["all_rules", "check", "reasons"]
