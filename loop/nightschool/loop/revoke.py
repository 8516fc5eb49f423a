"""Revoking a skill by hand: it leaves skills/, its full text and the reason stay in skill-impact.md."""

from __future__ import annotations

import shutil

from nightschool.disk import files, patches
from nightschool.disk.errors import Problem
from nightschool.disk.locks import Lock
from nightschool.loop import skills, wiki
from nightschool.loop.journal import Journal
from nightschool.loop.workspace import Workspace


def revoke(space: Workspace, name: str, reason: str) -> None:
    """Log the skill in full, then remove it. The next night measures a new baseline."""
    with Lock(space.lock):
        if not skills.NAME.fullmatch(name):
            raise Problem(f"{name!r} is no name of a skill", "`nightschool skills list` shows them")
        skill = skills.read(space.skills / name)
        last = max(Journal(space.journal).last_iteration(), 0)
        heading = f"iteration {last} | revoked | {name} | {files.sha256_text(skill.skill_md)[:8]}"
        texts = {"SKILL.md": skill.skill_md, "PURPOSE.md": skill.purpose_md}
        kept = "\n\n".join(f"{name} in full:\n\n{patches.quote(text)}" for name, text in texts.items())
        body = f"- Reason: {' '.join(reason.split())}\n\n{kept}"
        wiki.add_entry(space.wiki / "skill-impact.md", "Skill impact", heading, body)
        trash = space.skills / f".{name}.trash.tmp"  # if a kill leaves it, the next night sweeps it away
        (space.skills / name).rename(trash)
        shutil.rmtree(trash)
