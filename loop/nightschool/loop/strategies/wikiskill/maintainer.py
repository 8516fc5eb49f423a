"""The maintainer: one call that turns a sample of traces into edits of the wiki.

The grammar is built from the wiki as it is shown: targets are spans that exist, evidence is traces that were seen, no
span is edited twice. Evidence and index are written by code (nightschool.loop.wiki). A reply that a page does not take
is retried with the reason; when the attempts are used up, its edits become lines at the ends of their pages, and text
that says nothing is left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from typing import Any

from nightschool.disk import patches
from nightschool.disk.errors import Problem
from nightschool.disk.patches import Edit
from nightschool.engine import terms as t
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Completion, Message, Request, Sampling
from nightschool.loop import excerpts, seeds
from nightschool.loop.strategies.asking import RETRY_TOKENS, Tally, Unusable, ask
from nightschool.loop.strategies.base import State, Study
from nightschool.loop.strategies.wikiskill import wording
from nightschool.loop.traces import Trace
from nightschool.loop.wiki import MAX_EVIDENCE, Page, Wiki, new_page, revise

SLUG = r"[a-z][a-z0-9]{1,15}(-[a-z0-9]{1,12}){0,3}"
MAX_OPTIONS = 63
MAX_CREATE = 2
MAX_EDITS = 3
LINE = 120
REPLY_TOKENS = 600
Learned = tuple[tuple[Page, ...], str, dict[str, int]]


def sample(traces: Sequence[Trace], wiki: Wiki, *, fails: int, passes: int, seed: int) -> tuple[Trace, ...]:
    """Stratified: up to `fails` failing and `passes` passing traces; those whose tasks pages cite least come first."""
    cited = Counter(identity.rsplit("/", 1)[-1] for page in wiki.pages for identity in page.evidence)
    random_order = random.Random(seed)

    def draw(pool: list[Trace], number: int) -> list[Trace]:
        random_order.shuffle(pool)
        return sorted(pool, key=lambda trace: cited[trace.task])[:number]

    failing = draw([trace for trace in traces if not trace.passed], fails)
    passing = draw([trace for trace in traces if trace.passed], passes)
    return tuple(sorted([*failing, *passing], key=lambda trace: trace.task))


@dataclass(frozen=True, slots=True)
class View:
    """What the maintainer is shown: pages in full with their spans, and traces by their task's id."""

    pages: tuple[Page, ...]
    spans: tuple[tuple[str, str], ...]
    traces: Mapping[str, Trace]
    omitted: tuple[str, ...]


def grammar_for(view: View, *, first: bool) -> Grammar:
    """The replies that make sense for this view; `first`: an empty wiki must gain a page, if there is anything to cite."""
    evidence = t.distinct(sorted(view.traces), 1, min(4, len(view.traces)))
    content, patch, append = t.lines(1, 2, LINE), t.choice(["replace", "insert_after"]), t.choice(["append"])
    options = [
        t.obj(
            {
                "op": patch,
                "page": t.choice([page]),
                "target": t.choice([span]),
                "content": content,
                "evidence": evidence,
            }
        )
        for page, span in view.spans
    ] + [
        t.obj({"op": append, "page": t.choice([page.id]), "content": content, "evidence": evidence})
        for page in view.pages
    ]
    page = t.obj(
        {
            "name": t.matching(SLUG),
            "kind": t.choice(["failure", "success"]),
            "scope": t.choice(["general", "workaround"]),
            "problem": t.text(LINE, 1),
            "root_cause": t.text(LINE, 1),
            "fix": t.lines(1, 2, LINE),
            "evidence": evidence,
        }
    )
    fields: dict[str, t.Term] = {}
    if options:
        fields["edits"] = t.distinct_objects(options, 0, min(MAX_EDITS, len(options)))
    fields["create"] = t.array(page, int(first and bool(view.traces)), MAX_CREATE)
    fields["log"] = t.text(LINE, 1)
    return Grammar.build(t.obj(fields))


def view_of(state: State, traces: Sequence[Trace], budget: int) -> View:
    """Pages that the traces touch come first, newest first; as many as fit the budget, at most MAX_OPTIONS edits."""
    tasks = {trace.task for trace in traces}

    def relevance(page: Page) -> tuple[int, int, str]:
        touched = sum(identity.rsplit("/", 1)[-1] in tasks for identity in page.evidence)
        return -touched, -page.last_seen, page.id

    ordered = sorted(state.wiki.pages, key=relevance)
    kept, _ = state.maintainer.take([page.text for page in ordered], budget)
    pages = tuple(ordered[index] for index in kept[: MAX_OPTIONS // 2])
    spans = [(page.id, span) for page in pages for span in page.spans()]
    spans = seeds.some(spans, MAX_OPTIONS - len(pages), seeds.derive(state.seed, state.k, "spans"))
    shown = {page.id for page in pages}
    omitted = tuple(page.path for page in ordered if page.id not in shown)
    return View(pages, tuple(spans), {trace.task: trace for trace in traces}, omitted)


def study(state: State, sampled: Sequence[Trace]) -> Generator[Request, Completion, Study]:
    """One call of the maintainer, and what follows from its reply; nothing sampled is nothing learned."""
    if not sampled:
        return Study(log="(no trace was sampled)")
    system = resources("nightschool.loop.strategies.wikiskill").joinpath("prompts/maintainer.md").read_text("utf-8")
    room = max(state.maintainer.context - REPLY_TOKENS - RETRY_TOKENS - state.maintainer.system(system.strip()), 0)
    limit = min(state.settings.trace_chars, room * 2 // len(sampled))
    shown = [state.maintainer.fit(excerpts.show(trace), room // 2 // len(sampled), limit) for trace in sampled]
    view = view_of(state, sampled, room // 3)
    index = state.maintainer.fit(state.wiki.index(), room // 8)
    pages = "\n\n".join(f"Page {page.id}\n{page.text}" for page in view.pages) or "(the wiki is empty)"
    prompt = f"{index}\n\n{pages}\n\n" + "\n\n".join(shown) + "\n\nReply with one JSON object."
    tally = Tally()
    settings = state.settings
    refused: list[Mapping[str, Any]] = []

    def sampling(attempt: int) -> Sampling:
        return state.maintainer.draw(
            max_tokens=REPLY_TOKENS,
            temperature=settings.maintainer_temperature,
            seed=seeds.derive(state.seed, "train", state.k, "maintainer", "", 0, attempt),
        )

    def use(parsed: Mapping[str, Any]) -> Learned:
        refused[:] = [parsed]
        return learn(state, view, parsed)

    reply = yield from ask(
        tally,
        (Message("system", system.strip()), Message("user", prompt)),
        grammar_for(view, first=not state.wiki.pages),
        sampling,
        use,
        state.maintainer,
    )
    if reply is None and not refused:
        return Study(
            log="(the maintainer's reply could not be used)",
            replies=tally.replies,
            usage=tally.usage,
            omitted=view.omitted,
            refused=tuple(tally.refused),
        )
    pages_after, log, edits = reply[0] if reply else learn(state, view, refused[0], append=True)
    return Study(pages_after, log, edits, tally.replies, tally.usage, view.omitted, tuple(tally.refused))


def learn(state: State, view: View, reply: Mapping[str, Any], *, append: bool = False) -> Learned:
    """The pages as they stand after the reply, its log line, and how many edits of each kind were applied.

    Raises Unusable when a text says nothing or a page does not take its edits; with `append` such a text is left out, the
    edits go to the ends of their pages, and it never raises.
    """
    allowed = wording.quoted_keys(view.traces.values())
    wanted = [(item, _fault(item, allowed)) for item in (*reply.get("edits", ()), *reply["create"])]
    if not append and (reason := next((fault for _, fault in wanted if fault), None)):
        raise Unusable(reason)
    usable = [item for item, fault in wanted if not fault]
    counts = {"total": 0, "applied": 0, "append": 0, "replace": 0, "insert_after": 0, "create": 0}
    changed: dict[str, Page] = {}
    told = [reply["log"], *(f"(left out: {fault})" for _, fault in wanted if fault)]
    by_page: dict[str, list[Mapping[str, Any]]] = {}
    for edit in (item for item in usable if "op" in item):
        by_page.setdefault(edit["page"], []).append(edit)
        counts["total"] += 1
        counts[edit["op"]] += 1
    for identity, edits in by_page.items():
        page = state.wiki.page(identity)
        cited = _traces(view, [task for edit in edits for task in edit["evidence"]])
        try:
            changed[identity] = revise(page, [_edit(edit, append) for edit in edits], cited, state.k)
        except (Problem, ValueError, TypeError) as error:
            reason = error.what if isinstance(error, Problem) else str(error)
            if not append:
                raise Unusable(f"the page {identity} does not take the edits: {reason}") from None
            changed[identity] = Page(identity, patches.apply(page.text, [_edit(edit, append) for edit in edits]))
            told.append(f"({identity}: the evidence could not be noted: {reason})")
        else:
            gone = [item for item in page.evidence if item not in changed[identity].evidence]
            if gone:
                told.append(f"({identity}: evidence beyond {MAX_EVIDENCE} traces was dropped: {', '.join(gone)})")
        counts["applied"] += len(edits)
    if append and counts["total"]:
        told.append("(edits that a page did not take were appended)")
    wiki = state.wiki
    for item in (item for item in usable if "op" not in item):
        page = new_page(
            wiki.free_id(item["name"]),
            kind=item["kind"],
            scope=item["scope"],
            problem=[item["problem"]],
            root_cause=[item["root_cause"]],
            fix=item["fix"],
            evidence=_traces(view, item["evidence"]),
            iteration=state.k,
        )
        wiki = wiki.put(page)
        changed[page.id] = page
        counts["create"] += 1
    return tuple(changed.values()), " ".join(told), counts


def _fault(item: Mapping[str, Any], allowed: frozenset[str]) -> str | None:
    """Why the texts of an edit or a page cannot be used, if one of them cannot."""
    texts = item["content"] if "op" in item else [item["problem"], item["root_cause"], *item["fix"]]
    return next((fault for text in texts if (fault := wording.fault(text, allowed))), None)


def _edit(edit: Mapping[str, Any], append: bool) -> Edit:
    content = "\n".join(f"- {' '.join(line.split())}" for line in edit["content"])
    return Edit("append", content) if append else Edit(edit["op"], content, edit.get("target"))


def _traces(view: View, tasks: Sequence[str]) -> list[Trace]:
    return [view.traces[task] for task in dict.fromkeys(tasks)]
