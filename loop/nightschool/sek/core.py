"""validated -> core, and back: the only code that edits L0, and only after a person's yes (consent.py).

The person sees the diff of L0 and what it costs. Nothing is locked while the question stands; if L0 or the rule has changed
meanwhile, nothing is written. A no is recorded, so that the suggestion rests for a while.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from nightschool.disk.errors import Problem, nearest
from nightschool.disk.patches import unified
from nightschool.sek import bootstrap, rules
from nightschool.sek.commands import revocation
from nightschool.sek.consent import typed_yes
from nightschool.sek.lifecycle import Step
from nightschool.sek.prose import one_line
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.rules import Rule
from nightschool.sek.tree import Tree
from nightschool.sek.work import Done, Work, core_tags, l0, run

LONGEST_LINE = 300
_FIELD = re.compile(r"^(Expected|Got):[ \t]*(.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of L0 that waits for a yes."""

    tag: str
    path: str
    before: str
    after: str
    tokens: tuple[int, int]
    budget: int
    estimated: bool

    @property
    def diff(self) -> str:
        """What the person is shown."""
        return unified(self.before, self.after, self.path)

    @property
    def cost(self) -> str:
        """Tokens of L0, before and after."""
        guess = "about " if self.estimated else ""
        over = ": over its budget" if self.tokens[1] > self.budget else ""
        return f"{self.path}: {guess}{self.tokens[0]} -> {self.tokens[1]} tokens of {self.budget}{over}"


def promote(tree: Tree, tag: str, line: str | None = None, now: Clock = utc_now) -> Done:
    """Make a rule critical, if a person says yes to the diff; `line` is how it shall read there."""
    wanted = rules.check_tag(tag)
    if wanted in core_tags(tree):
        raise Problem(f"[{wanted}] is a critical rule already", f"nightschool sek history {wanted} tells since when")
    item = f"[{wanted}] {one_line(line, 'the line', LONGEST_LINE)}" if line else critical_line(_rule(tree, wanted))
    plan = _plan(tree, wanted, bootstrap.with_critical(l0(tree), item))
    if not typed_yes(f"{plan.diff}\n{plan.cost}", f"Promote [{wanted}] to Critical Rules?"):
        return _declined(tree, wanted, "core", now)

    def act(work: Work, at: datetime) -> None:
        _unchanged(work, plan)
        _rule(work.tree, wanted)
        data = {"path": plan.path, "line": item, "diff": plan.diff}
        work.add(Step({plan.path: plan.after}, (Event("core", stamp(at), wanted, data),)))
        work.add(Step(messages=(f"Critical now: [{wanted}] in {plan.path}",)))

    return run(tree, act, now)


def revoke(tree: Tree, tag: str, reason: str = "", now: Clock = utc_now) -> Done:
    """Remove a critical rule from L0 and from wherever else it stands, if a person says yes to the diff."""
    wanted = rules.check_tag(tag)
    lines = tuple(found.text for found in bootstrap.critical(l0(tree)) if found.tag == wanted)
    if not lines:
        raise Problem(f"[{wanted}] is no critical rule", nearest(wanted, core_tags(tree)))
    plan = _plan(tree, wanted, bootstrap.without_critical(l0(tree), wanted))
    pages = sorted({rule.path for rule in rules.every(tree) if rule.tag == wanted})
    where = f"\nIt leaves {', '.join(pages)} too." if pages else ""
    if not typed_yes(f"{plan.diff}\n{plan.cost}{where}", f"Revoke the critical rule [{wanted}]?"):
        return _declined(tree, wanted, "revoke", now)

    def act(work: Work, at: datetime) -> None:
        _unchanged(work, plan)
        work.add(revocation(work, wanted, reason, at, lines))
        work.add(Step({plan.path: plan.after}))

    return run(tree, act, now)


def critical_line(rule: Rule) -> str:
    """A rule in one line: its title, and for a rule that was learned what comes instead of what."""
    fields = {name: said.strip() for name, said in reversed(_FIELD.findall(rule.text)) if said.strip()}
    told = ": ".join(filter(None, (rule.title, fields.get("Got", ""))))
    if "Expected" in fields:
        told += f" (not: {fields['Expected']})"
    plain = one_line(told, "the line", 10_000)
    return f"[{rule.tag}] {plain if len(plain) <= LONGEST_LINE else plain[: LONGEST_LINE - 1].rstrip() + '…'}"


def _rule(tree: Tree, tag: str) -> Rule:
    found = rules.every(tree)
    for rule in found:
        if rule.tag == tag:
            return rule
    raise Problem(f"no rule has the tag [{tag}]", nearest(tag, {rule.tag for rule in found}))


def _plan(tree: Tree, tag: str, after: str) -> Plan:
    from nightschool.sek.counting import counter

    counts, table = counter(), tree.routing()
    tokens = (counts.count(l0(tree)), counts.count(after))
    return Plan(tag, table.bootstrap, l0(tree), after, tokens, table.l0_budget, counts.estimated)


def _unchanged(work: Work, plan: Plan) -> None:
    if (work.text(plan.path) or "") != plan.before:
        raise Problem(f"{plan.path} was changed while you were asked", "run the command again and look at the new diff")


def _declined(tree: Tree, tag: str, what: str, now: Clock) -> Done:
    def act(work: Work, at: datetime) -> None:
        work.add(Step(events=(Event("declined", stamp(at), tag, {"what": what}),)))
        work.add(Step(messages=(f"Nothing was changed: [{tag}] stays as it is",)))

    return run(tree, act, now)
