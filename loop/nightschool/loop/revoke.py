"""Revoking a skill by hand: it leaves skills/, its full text and the reason stay in skill-impact.md.

What else lies in its folder (scripts, references) is a person's: then the folder is moved to `raw/revoked/`. Of a link
only the link goes.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

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
        heading = wiki.revoked(last, name, skill.skill_md)
        texts = {"SKILL.md": skill.skill_md, "PURPOSE.md": skill.purpose_md}
        kept = "\n\n".join(f"{name} in full:\n\n{patches.quote(text)}" for name, text in texts.items())
        folder, aside = space.skills / name, _aside(space, name, skill.skill_md)
        moved = f"- Folder: kept as {aside.relative_to(space.root)}\n" if aside else ""
        body = f"- Reason: {' '.join(reason.split())}\n{moved}\n{kept}"
        wiki.add_entry(space.wiki / "skill-impact.md", "Skill impact", heading, body)
        with files.explained(folder):
            if folder.is_symlink():
                folder.unlink()  # what it leads to is a person's
            elif aside:
                aside.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder, aside)
            else:
                trash = space.skills / f".{name}.trash.tmp"  # if a kill leaves it, the next night sweeps it away
                folder.rename(trash)
                shutil.rmtree(trash)


def _aside(space: Workspace, name: str, skill_md: str) -> Path | None:
    """Where the folder goes when it holds more than the log does; None when it does not."""
    folder = space.skills / name
    own = {folder / "SKILL.md", folder / "PURPOSE.md"}
    if folder.is_symlink() or all(path in own for path in folder.rglob("*")):
        return None
    wanted = f"{name}-{files.sha256_text(skill_md)[:8]}"
    names = (wanted if n == 1 else f"{wanted}-{n}" for n in itertools.count(1))
    return next(path for one in names if not (path := space.raw / "revoked" / one).exists())
