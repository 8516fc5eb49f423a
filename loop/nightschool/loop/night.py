"""The stages of a night. Each is done once: its journal event is read back when the night is resumed.

The order inside a stage is always: compute; write the plan or the traces; journal; carry out. Whatever is carried out
can be carried out again, so a kill between any two instructions loses at most the work of one reply.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from nightschool.disk import files
from nightschool.disk.errors import Problem
from nightschool.loop import lessons, plans, skills, stats, traces, wiki
from nightschool.loop.crew import Crew
from nightschool.loop.gate import Candidate, Decision, Gate, Outcome
from nightschool.loop.hidden import Hidden
from nightschool.loop.journal import Event, Journal, best_score, best_scores
from nightschool.loop.progress import Watcher
from nightschool.loop.room import Room
from nightschool.loop.skills import SkillSet
from nightschool.loop.strategies.base import Change, Proposal, State, Strategy, Study
from nightschool.loop.suite import Suite, Task
from nightschool.loop.traces import Split, Trace
from nightschool.loop.work import Work, by_task, summary
from nightschool.loop.workspace import Config, Workspace


class Night:
    """One night of one workspace."""

    def __init__(
        self,
        space: Workspace,
        suite: Suite,
        config: Config,
        journal: Journal,
        crew: Crew,
        strategy: Strategy,
        gate: Gate,
        watcher: Watcher,
    ) -> None:
        """Begin, or take up, the night that the journal tells of (nights.py opens it)."""
        self.space, self.suite, self.config, self.journal = space, suite, config, journal
        self.crew, self.strategy, self.gate, self.watcher = crew, strategy, gate, watcher
        self.work, self.hidden = Work(space, suite, config, crew, watcher), Hidden(suite)
        self.shelf, self._older = wiki.Shelf(space.wiki), dict[str, Trace]()
        self.started = journal.night()[0]
        self.first = int(self.started["k"])
        self._train = {task.id for task in suite.train}
        self._room = Room(suite, crew, config.settings)
        self._clock = time.monotonic()

    # The algorithm's calls, in its order.

    def baseline(self) -> float:
        """The best val score so far: of the skills as they are, then of whatever was accepted."""
        if self.journal.find("baseline", self.first) is None:
            standing, scores = skills.load(self.space.skills), self.started["carried"]
            plans.keep_first(self.space.iteration(self.first), standing)
            if scores is None or standing.sha != self.started["skills"]:
                scores = by_task(self.rollout(self.first, "val", self.suite.val, standing))
            score = stats.mean(tuple(scores.values()))
            self._journal("baseline", self.first, score=score, scores=scores, skills=standing.sha)
        best = best_score(self.journal.night())
        assert best is not None
        return best

    def standing(self, k: int, best: float) -> float:
        """The best score, measured again when a person has edited skills/ in the middle of the night."""
        now = skills.load(self.space.skills)
        if now.sha == self._measured_skills() or self.journal.find("gate", k) is not None:
            return best
        self.watcher.note("skills/ was edited by hand: its val score is measured again")
        done = self.work.rollout(k, "edited", self.suite.val, now)
        self._journal("baseline", k, scores=by_task(done), skills=now.sha, **summary(done))
        return traces.mean(done)

    def iterations(self) -> Iterator[int]:
        """Iterations that are not settled yet."""
        for k in range(self.first + 1, self.first + 1 + int(self.started["iterations"])):
            if self.journal.find("settled", k) is None:
                yield k

    def state(self, k: int) -> State:
        """Everything that a strategy may look at in iteration k: train only."""
        config = self.config
        return State(
            k=k,
            train=self.suite.train,
            skills=skills.load(self.space.skills),
            wiki=self.shelf.load(),
            history=self.history(),
            impact=self._impact(),
            rejected=self._rejected(),
            settings=config.settings,
            seed=config.seed,
            suite=self.suite.name,
            model=self.crew.model("student").alias,
            maintainer=self.crew.meter("maintainer"),
            proposer=self.crew.meter("proposer"),
            student=self.crew.meter("student"),
            trace=self._train_trace,
            too_long=self._room.too_long,
        )

    def rollout(
        self, k: int, split: Split, tasks: Sequence[Task], with_skills: SkillSet, **seat: Any
    ) -> tuple[Trace, ...]:
        """The student on these tasks; traces that lie on the disk already are kept.

        A score counts for the skills that it was made with: when a person edits skills/ while a night is stopped, val
        is run again. Train is not: what was seen was seen, and the accepted skill may stand already.
        """
        event, sha = self.journal.last(split, k), with_skills.sha
        if event is not None and split != "train" and event.get("tried", sha) != sha:
            event = None
        done = self.work.rollout(k, split, tasks, with_skills, kept=event is not None, **seat)
        if event is None:
            self._journal(split, k, tried=sha, **summary(done))
        return done

    def study(self, k: int, seen: Sequence[Trace]) -> None:
        """The maintainer's call; its edits are written whatever comes of the skill."""
        event = self.journal.find("study", k)
        if event is None:
            self.watcher.stage(k, "study", 1)
            state = self.state(k)
            study: Study = self.work.one(k, "maintainer", lambda: self.strategy.study(state, seen))
            sha = plans.write_study(self.space, k, study, state.wiki)
            counts = {"edits": dict(study.edits), "replies": dict(study.replies), "usage": dict(study.usage)}
            event = self._journal(
                "study",
                k,
                plan=sha,
                pages=[page.id for page in study.pages],
                log=study.log,
                omitted=list(study.omitted),
                refused=list(study.refused),
                **counts,
            )
        if self.journal.find("proposal", k) is None:
            plans.carry_out_study(self.space, k, event["plan"], self.shelf)

    def propose(self, k: int, seen: Sequence[Trace]) -> Proposal:
        """The proposer's one change."""
        event = self.journal.find("proposal", k)
        if event is None:
            self.watcher.stage(k, "propose", 1)
            state = self.state(k)
            proposal: Proposal = self.work.one(k, "proposer", lambda: self.strategy.propose(state, seen))
            sha = plans.write_proposal(self.space, k, proposal)
            counts = {"edits": dict(proposal.edits), "replies": dict(proposal.replies), "usage": dict(proposal.usage)}
            change = proposal.change
            event = self._journal(
                "proposal",
                k,
                plan=sha,
                action=change.action if change else "no_action",
                skill=change.skill.name if change else None,
                reads=list(proposal.reads),
                omitted=list(proposal.omitted),
                refused=list(proposal.refused),
                **counts,
            )
        return plans.read_proposal(self.space, k, event["plan"])

    def try_out(self, k: int, change: Change, parent: SkillSet, best: float) -> Outcome:
        """Val with the candidate, and the gate's verdict; an accept is journaled before skills/ is touched."""
        event = self.journal.find("gate", k)
        if event is None:
            candidate = parent.put(change.skill)
            plans.write_candidate(self.space, change.skill)
            ran = self.rollout(k, "val", self.suite.val, candidate)
            score, decision = traces.mean(ran), self._decide(k, parent, candidate, ran)
            if plans.stale(self.space, change):
                decision = Decision(False, f"skills/{change.skill.name} was edited by hand meanwhile; the edit stands")
            event = self._journal(
                "gate",
                k,
                score=score,
                best=best,
                accepted=decision.accepted,
                reason=decision.reason,
                action=change.action,
                skill=change.skill.name,
                fingerprint=change.fingerprint,
                skills=candidate.sha if decision.accepted else self._measured_skills(),
                scores=by_task(ran),
            )
        return Outcome(k, change.action, change.skill.name, event["score"], event["accepted"], event["reason"])

    def settle(self, outcome: Outcome, proposal: Proposal, best: float) -> Outcome:
        """Carry the verdict out and write it down: skills/, skill-impact.md, logs.md.

        A person's word since the verdict (the night was killed in between) is the last.
        """
        if outcome.accepted and proposal.change is not None:
            before, after = f"{best:.3f}", f"{outcome.score:.3f}"
            skill = proposal.change.skill.with_metadata(**{"val-before": before, "val-after": after})
            if reason := plans.withdrawn(self.space, outcome.k, proposal.change, skill):
                outcome = replace(outcome, accepted=False, reason=reason)
            else:
                plans.accept(self.space, skill)
        if not outcome.accepted:
            plans.reject(self.space)
        study = self.journal.find("study", outcome.k)
        plans.record(self.space, outcome, proposal, best, study["log"] if study else "")
        self._journal("settled", outcome.k, **{key: value for key, value in asdict(outcome).items() if key != "k"})
        return outcome

    def test(self) -> None:
        """The test split, once, with the first and the final skills."""
        if self.journal.find("result", self.first) is not None:
            return
        first, final = self._first_skills(), skills.load(self.space.skills)
        last = max(event["k"] for event in self.journal.night())
        before = self.rollout(self.first, "test", self.suite.test, first)
        after = before if first.sha == final.sha else self.rollout(last, "test", self.suite.test, final)
        result = stats.paired(
            [trace.score for trace in before], [trace.score for trace in after], seed=self.config.seed
        )
        figures = asdict(result)
        named = {"first": figures.pop("before"), "final": figures.pop("after"), "tasks": figures.pop("n")}
        self._journal("result", self.first, **named, **figures)

    def promote(self) -> None:
        """Patterns that many tasks have cited become rules, where the workspace is a SEK tree."""
        for line in lessons.promote(self.space.root):
            self.watcher.note(line)

    def end(self, reason: str) -> None:
        """The night is over."""
        self._journal("end", self.first, reason=reason, skills=self._measured_skills())

    def history(self) -> tuple[Outcome, ...]:
        """What came of every iteration of this workspace so far."""
        keys = ("action", "skill", "score", "accepted", "reason")
        return tuple(
            Outcome(event["k"], **{key: event[key] for key in keys})
            for event in self.journal.events
            if event["event"] == "settled"
        )

    # How stages are carried out.

    def _train_trace(self, identity: str) -> Trace | None:
        """An older train trace, unless its task has left the train split since, or its question has."""
        if identity not in self._older and identity.rsplit("/", 1)[-1] in self._train:
            trace = traces.read_train(self.space.raw, identity)
            if trace is not None and not self.hidden.told(trace.prompt):
                self._older[identity] = replace(trace, messages=())  # nobody reads the long prompt of an older one
        return self._older.get(identity)

    def _first_skills(self) -> SkillSet:
        """The skills with which the night began, as they were kept beside its traces."""
        folder = self.space.iteration(self.first) / "skills"
        first, baseline = skills.load(folder), self.journal.find("baseline", self.first)
        if baseline is None or first.sha != baseline["skills"]:
            raise Problem(
                f"{folder} no longer holds the skills that this night began with", "restore it from a backup, or git"
            )
        return first

    def _decide(self, k: int, parent: SkillSet, candidate: SkillSet, ran: Sequence[Trace]) -> Decision:
        standing = best_scores(self.journal.night())
        assert standing is not None
        verdict = Candidate.of([(standing[trace.task], trace.score) for trace in ran])
        if self.gate.confirms and verdict.score > verdict.best:
            mine = self.rollout(k, "confirm", self.suite.val, candidate, attempt=1)
            again = self.rollout(k, "standing", self.suite.val, parent, attempt=1)
            verdict = replace(verdict, confirmed=(traces.mean(mine), traces.mean(again)))
        return self.gate.decide(self.history(), verdict)

    def _journal(self, event: str, k: int, **data: Any) -> Event:
        now = time.monotonic()
        record = self.journal.append(event, k, **data, seconds=round(now - self._clock, 3))
        self._clock = now
        self.watcher.event(record)
        return record

    def _measured_skills(self) -> str:
        """What the student read when the best score was measured."""
        return str(next(event["skills"] for event in reversed(self.journal.night()) if "skills" in event))

    def _impact(self) -> str:
        """What was tried, without what tells of a task that has left the train split since."""
        path = self.space.wiki / "skill-impact.md"
        entries = wiki.entries(files.read_text(path)) if path.is_file() else []
        return "\n".join(text for _, text in entries if not self.hidden.told(text))

    def _rejected(self) -> frozenset[str]:
        return frozenset(
            event["fingerprint"] for event in self.journal.events if event["event"] == "gate" and not event["accepted"]
        )
