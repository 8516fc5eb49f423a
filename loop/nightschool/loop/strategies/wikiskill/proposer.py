"""The proposer: a ReAct agent that reads the wiki and traces, then proposes one atomic change of one skill.

Two tools, `read_file` and `finish`. The grammar of each turn offers only what is unread, and `finish` only after enough
traces were read; after the turn limit, or when the context would overflow, `finish` is all that is left.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from typing import Any

from nightschool.engine import terms as t
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Completion, Message, Request, Sampling
from nightschool.loop import excerpts, seeds, skills, wiki
from nightschool.loop.strategies.asking import RETRY_TOKENS, Tally, Unusable, ask
from nightschool.loop.strategies.base import Proposal, State
from nightschool.loop.strategies.wikiskill.proposal import Draft, draft_change, proposal_term
from nightschool.loop.traces import Trace

THOUGHT = 80
REPLY_TOKENS = 900
TURN_TOKENS = 120
OBSERVATION_TOKENS = 600


@dataclass(frozen=True, slots=True)
class Library:
    """What can be read, by path: this iteration's traces, pages, skills, cited older traces, older impact entries."""

    files: Mapping[str, str]
    traces: frozenset[str]
    """Paths that count as traces read."""

    def unread(self, reads: Sequence[str]) -> list[str]:
        """Paths not read yet, sorted."""
        return sorted(set(self.files) - set(reads))


def library(state: State, traces: Sequence[Trace], limit: int) -> Library:
    """Everything that the proposer may read. Val and test are not among it, whatever a page cites."""
    fresh = {f"traces/{trace.task}": excerpts.show(trace, limit) for trace in traces}
    now = {trace.id for trace in traces}
    cited = {item for page in state.wiki.pages for item in page.evidence if item not in now}
    known = {item: trace for item in cited if (trace := state.trace(item)) is not None}
    older = {f"raw/{item}": excerpts.show(trace, limit) for item, trace in known.items()}
    pages = {page.path: page.text for page in state.wiki.pages}
    known_skills = {f"skills/{skill.name}/SKILL.md": skill.skill_md for skill in state.skills.skills}
    impact = {f"impact/{n:03d}": text for n, (_, text) in enumerate(wiki.entries(state.impact), 1)}
    return Library({**fresh, **older, **pages, **known_skills, **impact}, frozenset([*fresh, *older]))


def turn_grammar(unread: Sequence[str], proposal: t.Term | None) -> Grammar:
    """One action: read something unread, or finish (when `proposal` is given)."""
    thought = t.text(THOUGHT)
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
    full, left = meter.take([text for _, text in entries], room // 4)
    lines = [f"- {heading}" for heading, _ in entries[len(full) :]]
    heads, cut = meter.take(lines, room // 8)
    omitted = tuple(f"impact entry in full: {heading}" for heading, _ in entries[len(full) :])
    outcomes = [excerpts.outcome(trace) for trace in sorted(traces, key=lambda trace: (trace.passed, trace.task))]
    shown, hidden = meter.take(outcomes, room // 3)
    parts = [
        "Wiki index:\n" + meter.fit(state.wiki.index(), room // 4),
        "Skills: " + (", ".join(state.skills) or "none yet"),
        "Tried before, newest first:\n" + ("\n".join([*full, *heads]) or "nothing yet"),
        "Outcome of every train task:\n" + "\n".join(shown),
    ]
    if hidden:
        omitted = (*omitted, f"{hidden} train outcomes")
    if left and cut:
        omitted = (*omitted, f"{cut} older impact entries altogether")
    return "\n\n".join(parts), omitted


def propose(state: State, traces: Sequence[Trace]) -> Generator[Request, Completion, Proposal]:
    """Read, then finish with one change; a change that cannot be used goes back with the reason, bounded times."""
    meter, settings, tally = state.proposer, state.settings, Tally()
    system = resources("nightschool.loop.strategies.wikiskill").joinpath("prompts/proposer.md").read_text("utf-8")
    room = meter.context - REPLY_TOKENS - RETRY_TOKENS - TURN_TOKENS - meter.text(system)
    first, omitted = opening(state, traces, room)
    messages = [Message("system", system.strip()), Message("user", first + "\n\nReply with one JSON action.")]
    books = library(state, traces, settings.trace_chars)
    term = proposal_term(state, traces)
    minimum = min(settings.min_reads, len(books.traces))
    reads: list[str] = []
    turns = max(settings.max_turns, minimum)
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
            return Proposal(step.change, step.reason, tuple(reads), step.edits, tally.replies, tally.usage, omitted)
        reads.append(step)
        messages += [
            Message("assistant", text),
            Message(
                "user", f"{step}:\n{meter.fit(books.files[step], OBSERVATION_TOKENS)}\n\nReply with one JSON action."
            ),
        ]
    return Proposal(
        None, "the proposer's reply could not be used", tuple(reads), {}, tally.replies, tally.usage, omitted
    )


def act(state: State, traces: Sequence[Trace], parsed: Mapping[str, Any]) -> str | Draft:
    """The path to read, or the finished draft. Raises Unusable for a change that was rejected before or is too long."""
    if parsed["action"] == "read_file":
        return str(parsed["path"])
    draft = draft_change(state, traces, parsed["proposal"])
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
