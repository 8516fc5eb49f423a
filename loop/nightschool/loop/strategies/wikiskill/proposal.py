"""A proposal: its grammar, built from what exists, and the change that code makes of it.

The model writes sentences and cites ids; examples, origin and recurring graders' reasons are copied verbatim by code.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nightschool.disk import files, frontmatter, patches
from nightschool.engine import terms as t
from nightschool.loop import skills
from nightschool.loop.excerpts import one_line, shrink
from nightschool.loop.skills import Example, Skill
from nightschool.loop.strategies.base import Change, State
from nightschool.loop.strategies.wikiskill.maintainer import LINE, SLUG
from nightschool.loop.traces import Trace

MAX_SPANS = 40
EXAMPLE_TOKENS = 200
MAX_RULES = 4
ABOUT_ONE_ANSWER = ("expected ", "got ", "the answer is empty")
"""How reasons begin that tell of one answer and hold no rule."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What `finish` came to: a change, or None and the model's reason."""

    change: Change | None
    reason: str
    edits: Mapping[str, int] = field(default_factory=dict)


def citable(state: State, traces: Sequence[Trace]) -> list[Trace]:
    """Traces that a skill may show as examples: those that fail and that no skill shows yet; when there are none, those
    that fail although one does (shown again they may stick); then whatever is not shown."""
    fresh = [trace for trace in traces if not state.skills.knows(trace.prompt)]
    failing = [trace for trace in traces if not trace.passed]
    return ([trace for trace in failing if trace in fresh] or failing or fresh)[:63]


def proposal_term(state: State, traces: Sequence[Trace]) -> t.Term:
    """Create, patch one of the skills, or do nothing; alternatives without anything to cite are left out."""
    tasks = sorted(trace.task for trace in citable(state, traces))
    pages = [page.id for page in state.wiki.pages][-63:]
    alternatives: list[t.Term] = []
    if tasks:
        alternatives.append(_create(state, tasks, pages))
    alternatives += [_patch(skill, tasks) for skill in state.skills.skills]
    alternatives.append(t.obj({"action": t.choice(["no_action"]), "reason": t.text(LINE)}))
    return t.alt(alternatives)


def _create(state: State, tasks: Sequence[str], pages: Sequence[str]) -> t.Term:
    minimum = min(state.settings.min_examples, len(tasks))
    fields: dict[str, t.Term] = {
        "action": t.choice(["create"]),
        "name": t.matching(SLUG),
        "description": t.text(LINE),
        "when": t.lines(1, 2, LINE),
        "when_not": t.lines(1, 1, LINE),
        "instructions": t.lines(1, 2, LINE),
    }
    if pages:
        fields["patterns"] = t.distinct(pages, 1, min(3, len(pages)))
    fields["examples"] = t.distinct(tasks, minimum, min(skills.MAX_EXAMPLES, len(tasks)))
    return t.obj(fields)


def _patch(skill: Skill, tasks: Sequence[str]) -> t.Term:
    spans = patches.spans(skill.skill_md, closed={skills.EXAMPLES})[:MAX_SPANS]
    content = t.lines(1, 2, LINE)
    options = [
        t.obj({"op": t.choice(["replace", "insert_after"]), "target": t.choice([span]), "content": content})
        for span in spans
    ] + [t.obj({"op": t.choice(["append"]), "content": content})]
    room = min(skills.MAX_EXAMPLES - len(skill.examples()), len(tasks))
    fields: dict[str, t.Term] = {
        "action": t.choice(["patch"]),
        "skill": t.choice([skill.name]),
        "edits": t.distinct_objects(options, 0 if room > 0 else 1, min(3, len(options))),
    }
    if room > 0:
        fields["examples"] = t.distinct(tasks, 1, room)
    return t.obj(fields)


def draft_change(state: State, traces: Sequence[Trace], proposal: Mapping[str, Any]) -> Draft:
    """The skill as it would stand, from what the model wrote and what it cited."""
    if proposal["action"] == "no_action":
        return Draft(None, proposal["reason"])
    by_task = {trace.task: trace for trace in traces}
    cited = [by_task[task] for task in proposal.get("examples", ())]
    if proposal["action"] == "create":
        return Draft(_created(state, cited, proposal), proposal["description"])
    return _patched(state, cited, proposal)


def _created(state: State, cited: Sequence[Trace], proposal: Mapping[str, Any]) -> Change:
    names = [proposal["name"], *(f"{proposal['name']}-{n}" for n in range(2, len(state.skills) + 3))]
    name = next(item for item in names if item not in state.skills)
    patterns = proposal.get("patterns", [])
    text = skills.render(
        name,
        description=proposal["description"].translate({ord("<"): "(", ord(">"): ")"}),
        when=proposal["when"],
        when_not=proposal["when_not"],
        instructions=[*proposal["instructions"], *recurring_reasons(cited)],
        examples=[_example(state, trace) for trace in cited],
        metadata={"scope": _scope(state, patterns), "model": state.model, "suite": state.suite},
    )
    origin = [f"iteration {state.k}, from {len(cited)} train tasks:", *(f"- {trace.id}" for trace in cited)]
    purpose = (
        f"# Purpose of {name}\n\n## Origin\n"
        + "\n".join(origin)
        + "\n\n## Patterns Addressed\n"
        + ("\n".join(f"- [{item}](../../wiki/patterns/{item}.md)" for item in patterns) or "- none")
        + f"\n\n## Evolution History\n- iteration {state.k}: created\n"
    )
    return _change(state, "create", Skill(name, text, purpose), "", proposal, cited)


def _patched(state: State, cited: Sequence[Trace], proposal: Mapping[str, Any]) -> Draft:
    old = state.skills[proposal["skill"]]
    edits = [
        patches.Edit(op=item["op"], content=skills.bullets(item["content"]), target=item.get("target"))
        for item in proposal["edits"]
        if item["op"] != "append"
    ]
    added = [line for item in proposal["edits"] if item["op"] == "append" for line in item["content"]]
    front, body = frontmatter.split(patches.apply(old.skill_md, edits))
    rules = [*added, *(rule for rule in recurring_reasons(cited) if rule not in old.skill_md)]
    if rules:
        text = f"{skills.section(body, 'Instructions')}\n{skills.bullets(rules)}".strip()
        body = skills.replace_section(body, "Instructions", text)
    if cited:
        body = skills.add_examples(body, [_example(state, trace) for trace in cited])
    purpose = old.purpose_md.rstrip() + f"\n- iteration {state.k}: patched, with {len(cited)} more examples\n"
    counts = Counter(item["op"] for item in proposal["edits"])
    edits_made = {"total": counts.total(), "applied": counts.total(), **counts}
    skill = Skill(old.name, frontmatter.join(front, body), purpose)
    change = _change(state, "patch", skill, old.skill_md, proposal, cited)
    return Draft(change, f"patch of {old.name}: {counts.total()} edits, {len(cited)} examples", edits_made)


def recurring_reasons(cited: Sequence[Trace]) -> list[str]:
    """Reasons that graders gave for at least two of the cited failures: rules in the graders' own words."""
    parts = Counter(part for trace in cited if not trace.passed for part in set(trace.reason.split("; ")))
    rules = [part for part, number in parts.most_common() if number >= 2 and not part.startswith(ABOUT_ONE_ANSWER)]
    return [one_line(part, LINE) for part in rules[:MAX_RULES]]


def _example(state: State, trace: Trace) -> Example:
    question = trace.prompt
    while state.proposer.text(f"{question}\n{trace.expected}") > EXAMPLE_TOKENS and len(question) > 80:
        question = shrink(question, len(question) * 3 // 4)
    return Example(question, shrink(trace.expected, 400))


def _scope(state: State, patterns: Sequence[str]) -> str:
    scopes = {str(state.wiki.page(item).front.get("scope")) for item in patterns}
    return "workaround" if "workaround" in scopes else "general"


def _change(
    state: State, action: str, skill: Skill, before: str, proposal: Mapping[str, Any], cited: Sequence[Trace]
) -> Change:
    mark = json.dumps([state.model, state.skills.sha, skill.body], ensure_ascii=False)
    return Change(
        action,
        skill,
        before,
        files.sha256_text(mark),
        json.dumps(proposal, ensure_ascii=False),
        tuple(x.id for x in cited),
    )
