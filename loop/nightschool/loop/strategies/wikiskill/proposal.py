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
from nightschool.loop import seeds, skills
from nightschool.loop.excerpts import one_line
from nightschool.loop.meter import Meter
from nightschool.loop.skills import Example, Skill
from nightschool.loop.strategies.base import Change, State
from nightschool.loop.strategies.wikiskill.maintainer import LINE, SLUG
from nightschool.loop.traces import Trace

MOST = 63
"""Ids among which a grammar can tell that none is cited twice."""
MAX_SPANS = 40
EXAMPLE_TOKENS = 200
QUESTION_TOKENS = 40
"""A question that is cut to less than this tells nothing."""
MAX_RULES = 4


@dataclass(frozen=True, slots=True)
class Draft:
    """What `finish` came to: a change, or None and the model's reason."""

    change: Change | None
    reason: str
    edits: Mapping[str, int] = field(default_factory=dict)


def citable(state: State, traces: Sequence[Trace]) -> list[Trace]:
    """Traces that a skill may show as examples: those that fail and that no skill shows yet; when there are none, those
    that fail although one does (shown again they may stick), even where the answer is too long to be shown; then
    whatever is not shown. Where there are too many, some of them."""
    examples = [example_of(state.reader, trace) for trace in traces]
    pairs = list(zip(traces, examples, strict=True))
    fresh = {trace.task for trace, example in pairs if not _known(state, trace, example)}
    failing = [trace for trace in traces if not trace.passed]
    shown = [trace for trace, example in pairs if example and not trace.passed]
    found = (
        [trace for trace in shown if trace.task in fresh]
        or shown
        or failing
        or [trace for trace, example in pairs if example and trace.task in fresh]
    )
    return seeds.some(found, MOST, seeds.derive(state.seed, state.k, "citable"))


def _known(state: State, trace: Trace, example: Example | None) -> bool:
    """Whether a skill shows this question, in full or as an example shortens it."""
    questions = {trace.prompt} if example is None else {trace.prompt, example.question}
    return any(state.skills.knows(question) for question in questions)


def proposal_term(state: State, traces: Sequence[Trace]) -> t.Term:
    """Create, patch one of the skills, or do nothing; alternatives without anything to cite are left out."""
    tasks = sorted(trace.task for trace in citable(state, traces))
    pages = seeds.some([page.id for page in state.wiki.pages], MOST, seeds.derive(state.seed, state.k, "patterns"))
    alternatives: list[t.Term] = []
    if tasks:
        alternatives.append(_create(state, tasks, pages))
    alternatives += [_patch(state, skill, tasks) for skill in state.skills.skills]
    alternatives.append(t.obj({"action": t.choice(["no_action"]), "reason": t.text(LINE, 1)}))
    return t.alt(alternatives)


def _create(state: State, tasks: Sequence[str], pages: Sequence[str]) -> t.Term:
    minimum = min(state.settings.min_examples, len(tasks))
    fields: dict[str, t.Term] = {
        "action": t.choice(["create"]),
        "name": t.matching(SLUG),
        "description": t.text(LINE, 1),
        "when": t.lines(1, 2, LINE),
        "when_not": t.lines(1, 1, LINE),
        "instructions": t.lines(1, 2, LINE),
    }
    if pages:
        fields["patterns"] = t.distinct(pages, 1, min(3, len(pages)))
    fields["examples"] = t.distinct(tasks, minimum, min(skills.MAX_EXAMPLES, len(tasks)))
    return t.obj(fields)


def spans_of(skill: Skill) -> list[str]:
    """Lines of a skill that an edit may name. What Markdown takes for headings in an example (indented, underlined) does
    not end the section for us: no line of it is among them."""
    closed = {line.strip() for line in skills.section(skill.body, skills.EXAMPLES).split("\n")}
    return [span for span in patches.spans(skill.skill_md, closed={skills.EXAMPLES}) if span.strip() not in closed]


def _patch(state: State, skill: Skill, tasks: Sequence[str]) -> t.Term:
    spans = seeds.some(spans_of(skill), MAX_SPANS, seeds.derive(state.seed, state.k, "spans", skill.name))
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


def texts_of(proposal: Mapping[str, Any]) -> list[str]:
    """Every text of the model that would stand in a skill."""
    match proposal["action"]:
        case "create":
            lines = (line for key in ("when", "when_not", "instructions") for line in proposal[key])
            return [proposal["description"], *lines]
        case "patch":
            return [line for edit in proposal["edits"] for line in edit["content"]]
    return []


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
        description=proposal["description"].strip().translate({ord("<"): "(", ord(">"): ")"}),
        when=proposal["when"],
        when_not=proposal["when_not"],
        instructions=[*proposal["instructions"], *recurring_reasons(cited)],
        examples=_examples(state, cited),
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
    examples = _examples(state, cited)
    if examples:
        body = skills.add_examples(body, examples)
    purpose = old.purpose_md.rstrip() + f"\n- iteration {state.k}: patched, with {len(examples)} more examples\n"
    counts = Counter(item["op"] for item in proposal["edits"])
    edits_made = {"total": counts.total(), "applied": counts.total(), **counts}
    skill = Skill(old.name, frontmatter.join(front, body), purpose)
    change = _change(state, "patch", skill, old.skill_md, proposal, cited)
    return Draft(change, f"patch of {old.name}: {counts.total()} edits, {len(examples)} examples", edits_made)


def recurring_reasons(cited: Sequence[Trace]) -> list[str]:
    """What graders asked of at least two of the cited failures: rules in the graders' own words."""
    rules = Counter(rule for trace in cited if not trace.passed for rule in dict.fromkeys(trace.rules))
    return [one_line(rule, LINE) for rule, number in rules.most_common() if number >= 2][:MAX_RULES]


def example_of(meter: Meter, trace: Trace) -> Example | None:
    """Task and expected answer within EXAMPLE_TOKENS. A long question is cut; an answer never is, for it would teach a
    wrong one: where it leaves no room for its question, there is no example."""
    whole = Example(trace.prompt, trace.expected)
    if meter.text(whole.render()) <= EXAMPLE_TOKENS:
        return whole
    room = EXAMPLE_TOKENS - meter.text(Example("", trace.expected).render())
    if room < QUESTION_TOKENS:
        return None
    # a text by itself is counted with a template around it; where the parts meet, tokens may be others
    example = Example(meter.fit(trace.prompt, room - 4 + meter.text("")), trace.expected)
    return example if meter.text(example.render()) <= EXAMPLE_TOKENS else None


def _examples(state: State, cited: Sequence[Trace]) -> list[Example]:
    return [example for trace in cited if (example := example_of(state.reader, trace)) is not None]


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
