"""The proposer: a ReAct agent that reads the wiki and traces, then proposes one atomic change of one skill.

Two tools, `read_file` and `finish`. The grammar of each turn offers only what is unread, and `finish` only after enough
traces were read; after the turn limit, or when the context would overflow, `finish` is all that is left.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.engine import terms as t
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Completion, Message, Request, Sampling
from nightschool.loop import excerpts, seeds, skills, wiki
from nightschool.loop.meter import Meter
from nightschool.loop.strategies.asking import RETRY_TOKENS, Tally, Unusable, ask
from nightschool.loop.strategies.base import Change, Proposal, State
from nightschool.loop.strategies.wikiskill import wording
from nightschool.loop.strategies.wikiskill.proposal import Draft, draft_change, proposal_term, texts_of
from nightschool.loop.traces import Trace

THOUGHT = 80
REPLY_TOKENS = 900
TURN_TOKENS = 120
OBSERVATION_TOKENS = 600


@dataclass(frozen=True, slots=True)
class Library:
    """What can be read, by path: this iteration's traces, pages, skills, cited older traces, older impact entries."""

    files: Mapping[str, str]
    """Sorted by path."""
    traces: frozenset[str]
    """Paths that count as traces read."""
    limit: int
    """Characters of a trace that are shown, at most."""

    def excerpt(self, path: str, meter: Meter) -> str:
        """A file as it is shown."""
        return meter.fit(self.files[path], OBSERVATION_TOKENS, self.limit if path in self.traces else None)

    def unread(self, reads: Sequence[str]) -> list[str]:
        """Paths not read yet, sorted."""
        return [path for path in self.files if path not in reads]


def library(state: State, traces: Sequence[Trace], limit: int) -> Library:
    """Everything that the proposer may read. Val and test are not among it, whatever a page cites."""
    fresh = {f"traces/{trace.task}": excerpts.show(trace) for trace in traces}
    now = {trace.id for trace in traces}
    cited = {item for page in state.wiki.pages for item in page.evidence if item not in now}
    known = {item: trace for item in cited if (trace := state.trace(item)) is not None}
    older = {f"raw/{item}": excerpts.show(trace) for item, trace in known.items()}
    pages = {page.path: page.text for page in state.wiki.pages}
    known_skills = {f"skills/{skill.name}/SKILL.md": skill.skill_md for skill in state.skills.skills}
    impact = {f"impact/{n:03d}": text for n, (_, text) in enumerate(wiki.entries(state.impact), 1)}
    books = {**fresh, **older, **pages, **known_skills, **impact}
    return Library(dict(sorted(books.items())), frozenset([*fresh, *older]), limit)


def turn_grammar(unread: Sequence[str], proposal: t.Term | None) -> Grammar:
    """One action: read something unread, or finish (when `proposal` is given)."""
    thought = t.text(THOUGHT, 1)
    actions: list[t.Term] = []
    if unread:
        actions.append(t.obj({"thought": thought, "action": t.choice(["read_file"]), "path": t.choice(unread)}))
    if proposal is not None:
        actions.append(t.obj({"thought": thought, "action": t.choice(["finish"]), "proposal": proposal}))
    return Grammar.build(t.alt(actions))


def opening(state: State, traces: Sequence[Trace], room: int) -> tuple[str, tuple[str, ...]]:
    """The first message: index, skill-impact (newest in full, older ones a line each), outcome of every train task."""
    meter = state.proposer
    entries = wiki.entries(state.impact)[::-1]
    full, rest = meter.take([text for _, text in entries], room // 4)
    heads, _ = meter.take([f"- {entries[index][0]}" for index in rest], room // 8)
    tried = {index: entries[index][1] for index in full}
    tried |= {rest[index]: f"- {entries[rest[index]][0]}" for index in heads}
    ordered = sorted(traces, key=lambda trace: (trace.passed, trace.task))
    outcomes = [excerpts.outcome(trace) for trace in ordered]
    shown, hidden = meter.take(outcomes, room // 3)
    index = state.wiki.index()
    fitted = meter.fit(index, room // 4)
    parts = [
        "Wiki index:\n" + fitted,
        "Skills: " + (", ".join(state.skills) or "none yet"),
        "Tried before, newest first:\n" + ("\n".join(tried[n] for n in sorted(tried)) or "nothing yet"),
        "Outcome of every train task:\n" + "\n".join(outcomes[n] for n in shown),
    ]
    omitted = [
        *(["part of the wiki index"] if fitted != index else []),
        *(f"impact entry {'in full' if n in tried else 'altogether'}: {entries[n][0]}" for n in rest),
        *(f"outcome of {ordered[n].task}" for n in hidden),
    ]
    return "\n\n".join(parts), tuple(omitted)


def propose(state: State, traces: Sequence[Trace]) -> Generator[Request, Completion, Proposal]:
    """Read, then finish with one change; a change that cannot be used goes back with the reason, bounded times."""
    meter, settings, tally = state.proposer, state.settings, Tally()
    system = resources("nightschool.loop.strategies.wikiskill").joinpath("prompts/proposer.md").read_text("utf-8")
    books = library(state, traces, settings.trace_chars)
    minimum = min(settings.min_reads, len(books.traces))
    room = max(meter.context - REPLY_TOKENS - RETRY_TOKENS - TURN_TOKENS - meter.system(system.strip()), 0)
    # reading comes first; where the context holds both, it is not used up by what is told at once
    share = max(room - minimum * (OBSERVATION_TOKENS + TURN_TOKENS), room // 3)
    first, omitted = opening(state, traces, share)
    messages = [Message("system", system.strip()), Message("user", first + "\n\nReply with one JSON action.")]
    term = proposal_term(state, traces)
    reads: list[str] = []
    turns = max(settings.max_turns, minimum)

    def done(change: Change | None, reason: str, edits: Mapping[str, int]) -> Proposal:
        return Proposal(change, reason, tuple(reads), edits, tally.replies, tally.usage, omitted, tuple(tally.refused))

    for turn in range(turns + 1):
        due = minimum - sum(path in books.traces for path in reads)
        enough = due <= 0
        ahead = OBSERVATION_TOKENS + TURN_TOKENS + REPLY_TOKENS + RETRY_TOKENS
        full = meter.count(messages) + ahead > meter.context
        offered = [] if full or (enough and turn >= turns) else books.unread(reads)
        if not enough and turns - turn <= due:  # every turn that is left is needed for a trace
            offered = [path for path in offered if path in books.traces]
        grammar = turn_grammar(offered, term if enough or not offered else None)

        def sampling(attempt: int, turn: int = turn) -> Sampling:
            return meter.draw(
                max_tokens=REPLY_TOKENS,
                temperature=settings.proposer_temperature,
                seed=seeds.derive(state.seed, "train", state.k, "proposer", "", turn, attempt),
            )

        reply = yield from ask(tally, messages, grammar, sampling, lambda parsed: act(state, traces, parsed), meter)
        if reply is None:
            break
        step, text = reply
        if isinstance(step, Draft):
            return done(step.change, step.reason, step.edits)
        reads.append(step)
        messages += [
            Message("assistant", text),
            Message("user", f"{step}:\n{books.excerpt(step, meter)}\n\nReply with one JSON action."),
        ]
    return done(None, f"the proposer's reply could not be used: {tally.refused[-1]}", {})


def act(state: State, traces: Sequence[Trace], parsed: Mapping[str, Any]) -> str | Draft:
    """The path to read, or the finished draft. Raises Unusable for a change that cannot be made, or says nothing."""
    if parsed["action"] == "read_file":
        return str(parsed["path"])
    wording.refuse(texts_of(parsed["proposal"]), wording.quoted_keys(traces))
    try:
        draft = draft_change(state, traces, parsed["proposal"])
    except (Problem, ValueError, TypeError) as error:  # what a person wrote around it cannot be written again
        raise Unusable(error.what if isinstance(error, Problem) else str(error)) from None
    if draft.change is None:
        return draft
    for fault in skills.faults(draft.change.skill.skill_md, draft.change.skill.name):
        raise Unusable(fault)
    if draft.change.fingerprint in state.rejected:
        raise Unusable("the same change was rejected before")
    if draft.change.skill.skill_md == draft.change.before:
        raise Unusable("it changes nothing")
    too_long = state.too_long(state.skills.put(draft.change.skill))
    if too_long:
        raise Unusable(too_long)
    return draft
