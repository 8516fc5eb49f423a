"""Plans: what a stage decided, written down before it is done, so that doing it can be repeated after a crash.

On disk `raw/iter-003/study.json` (pages as they should stand, with the hash of what they stood as) and
`raw/iter-003/proposal.json` (the change in full). Carrying a plan out twice changes nothing; a page that a person
edited in the meantime keeps the person's text, and gains what the plan would have added.
"""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nightschool.disk import files, patches
from nightschool.disk.errors import Problem
from nightschool.loop import skills, wiki
from nightschool.loop.gate import Outcome
from nightschool.loop.skills import Skill, SkillSet
from nightschool.loop.strategies.base import Change, Proposal, Study
from nightschool.loop.wiki import Shelf, Wiki
from nightschool.loop.workspace import Workspace

SCHEMA = 1


def keep_first(folder: Path, standing: SkillSet) -> None:
    """Keep the skills that a night begins with, for its test at the end."""
    shutil.rmtree(folder / "skills", ignore_errors=True)
    skills.write(folder / "skills", standing)


def write_study(space: Workspace, k: int, study: Study, shown: Wiki) -> str:
    """Write the maintainer's plan, made from the wiki as it was shown; returns its hash."""
    before = {page.id: page for page in shown.pages}
    pages = [
        {
            "id": page.id,
            "text": page.text,
            "before": files.sha256_text(before[page.id].text) if page.id in before else None,
        }
        for page in study.pages
    ]
    return _write(space.iteration(k) / "study.json", {"pages": pages, "log": study.log, "omitted": list(study.omitted)})


def carry_out_study(space: Workspace, k: int, sha: str, shelf: Shelf) -> None:
    """Bring the pages to where the plan wants them, and render the index."""
    plan = _read(space.iteration(k) / "study.json", sha)
    for item in plan["pages"]:
        path = space.wiki / "patterns" / f"{item['id']}.md"
        now = files.read_text(path) if path.is_file() else None
        if now is None and item["before"] is not None:
            continue  # a person removed the page meanwhile
        if now is None or files.sha256_text(now) == item["before"]:
            files.write_atomic(path, item["text"])
        elif now != item["text"]:
            files.write_atomic(path, _merged(now, item["text"]))
    files.write_atomic(space.wiki / "index.md", shelf.load().index())


def _merged(person: str, planned: str) -> str:
    """The person's page, and below it the plan's lines that it lacks; evidence comes again with the next citation."""
    have = set(person.split("\n"))
    extra = [line[2:] for line in difflib.ndiff(person.split("\n"), planned.split("\n")) if line.startswith("+ ")]
    added = [line for line in extra if line not in have and line.startswith("- ") and not wiki.EVIDENCE.match(line)]
    return person if not added else person.rstrip() + "\n" + "\n".join(added) + "\n"


def write_proposal(space: Workspace, k: int, proposal: Proposal) -> str:
    """Write the proposer's plan; returns its hash."""
    change = asdict(proposal.change) if proposal.change else None
    return _write(
        space.iteration(k) / "proposal.json",
        {"change": change, "reason": proposal.reason, "reads": list(proposal.reads), "omitted": list(proposal.omitted)},
    )


def read_proposal(space: Workspace, k: int, sha: str) -> Proposal:
    """The proposer's plan."""
    plan = _read(space.iteration(k) / "proposal.json", sha)
    change = plan["change"]
    if change is not None:
        change = Change(**{**change, "skill": Skill(**change["skill"]), "cites": tuple(change["cites"])})
    return Proposal(change, plan["reason"], tuple(plan["reads"]))


def write_candidate(space: Workspace, skill: Skill) -> None:
    """Put the candidate beside skills/, from scratch: whatever lies there, with this skill added or replaced.

    Links stay links, save for this skill and its two files: what they lead to is a person's, and is not written.
    """
    shutil.rmtree(space.candidate, ignore_errors=True)
    with files.explained(space.candidate):
        space.candidate.mkdir(parents=True)
        for path in sorted(space.skills.iterdir()) if space.skills.is_dir() else ():
            _copy(path, space.candidate / path.name, follow=path.name == skill.name)
        for name in ("SKILL.md", "PURPOSE.md"):
            if (own := space.candidate / skill.name / name).is_symlink():
                own.unlink()
    skills.write(space.candidate, SkillSet((skill,)))


def _copy(path: Path, copy: Path, *, follow: bool) -> None:
    """A file or a folder as it lies there; what is neither (a socket, a pipe) is left out."""
    if path.is_symlink() and not follow:
        copy.symlink_to(path.readlink())
    elif path.is_dir():
        copy.mkdir()
        for inner in sorted(path.iterdir()):
            _copy(inner, copy / inner.name, follow=False)
    elif path.is_file():
        shutil.copy(path, copy)


def accept(space: Workspace, skill: Skill) -> None:
    """Put the accepted skill into skills/, in one swap of the folder; nothing happens when it already is there."""
    if skills.load(space.skills).get(skill.name) != skill or space.candidate.exists():
        write_candidate(space, skill)
        files.replace_tree(space.candidate, space.skills)


def stale(space: Workspace, change: Change) -> bool:
    """Whether a person has edited the skill since the change was made from it."""
    now = skills.load(space.skills).get(change.skill.name)
    return change.before != (now.skill_md if now else "")


def withdrawn(space: Workspace, k: int, change: Change, skill: Skill) -> str | None:
    """What a person did to the accepted skill between the gate's verdict and the swap of a resumed night, if anything."""
    now = skills.load(space.skills).get(skill.name)
    if now == skill:
        return None
    impact = space.wiki / "skill-impact.md"
    headings = [heading for heading, _ in wiki.entries(files.read_text(impact))] if impact.is_file() else []
    if wiki.revoked(k, skill.name, skill.skill_md) in headings:
        return f"skills/{skill.name} was revoked meanwhile"
    return f"skills/{skill.name} was edited by hand meanwhile; the edit stands" if stale(space, change) else None


def reject(space: Workspace) -> None:
    """Drop the candidate."""
    shutil.rmtree(space.candidate, ignore_errors=True)


def record(space: Workspace, outcome: Outcome, proposal: Proposal, best: float, log: str) -> None:
    """Append what was tried and what came of it to skill-impact.md and logs.md, whichever way it went."""
    verdict = "accepted" if outcome.accepted else "no action" if proposal.change is None else "rejected"
    heading = f"iteration {outcome.k} | {verdict}" + (f" | {outcome.action} {outcome.skill}" if outcome.skill else "")
    wiki.add_entry(space.wiki / "skill-impact.md", "Skill impact", heading, _impact(outcome, proposal, best))
    wiki.add_entry(
        space.wiki / "logs.md",
        "Log",
        heading,
        f"Outcome: {' '.join(outcome.reason.split())}\n\nMaintainer: {' '.join(log.split()) or '(nothing)'}",
    )


def _impact(outcome: Outcome, proposal: Proposal, best: float) -> str:
    change = proposal.change
    if change is None:
        return f"- Outcome: no action\n- Reason: {' '.join(proposal.reason.split())}"
    score = "not run" if outcome.score is None else f"{outcome.score:.3f}"
    lines = [
        f"- Outcome: {'accepted' if outcome.accepted else 'rejected'}",
        f"- Reason: {outcome.reason}",
        f"- Target: {change.action} skills/{change.skill.name}/SKILL.md",
        f"- Val score: {score} (best before: {best:.3f})",
        f"- Fingerprint: {change.fingerprint}",
        f"- Cites: {', '.join(change.cites) or 'none'}",
    ]
    diff = patches.unified(change.before, change.skill.skill_md, f"skills/{change.skill.name}/SKILL.md")
    return "\n".join(
        [
            *lines,
            "\nProposal:\n",
            patches.quote(change.origin),
            "\nDiff:\n",
            patches.quote(diff),
            "\nSKILL.md in full:\n",
            patches.quote(change.skill.skill_md),
            "\nPURPOSE.md in full:\n",
            patches.quote(change.skill.purpose_md),
        ]
    )


def _write(path: Path, plan: Mapping[str, Any]) -> str:
    text = json.dumps({"schema": SCHEMA, **plan}, ensure_ascii=False, indent=1) + "\n"
    files.write_atomic(path, text)
    return files.sha256_text(text)


def _read(path: Path, sha: str) -> dict[str, Any]:
    """The plan that the journal tells of, and no other."""
    text = files.read_text(path)
    if files.sha256_text(text) != sha:
        raise Problem(f"{path}: not the plan that the journal tells of", "restore the file from a backup")
    plan: dict[str, Any] = json.loads(text)
    return plan
