"""`nightschool skills`: list, show, validate, revoke."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Dir, Json

if TYPE_CHECKING:
    from nightschool.loop.skills import Skill
    from nightschool.loop.workspace import Workspace

app = typer.Typer(help="The skills that the gate let in.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The skill's name.")]


@app.command("list")
def list_skills(folder: Dir = HERE, as_json: Json = False) -> None:
    """Every skill, with the val score before and after it."""
    from nightschool.loop.skills import load
    from nightschool.loop.workspace import find

    skills = load(find(folder).skills)
    rows = [(name, skill.description, dict(skill.front.get("metadata") or {})) for name, skill in skills.items()]
    if as_json:
        output.data([{"name": name, "description": text, "metadata": metadata} for name, text, metadata in rows])
    elif rows:
        cells = [
            (name, f"{meta.get('val-before', '-')} → {meta.get('val-after', '-')}", text) for name, text, meta in rows
        ]
        output.table(("skill", "val", "description"), cells)
    else:
        output.say("no skill has been accepted yet")


@app.command()
def show(name: Name, folder: Dir = HERE, as_json: Json = False) -> None:
    """SKILL.md and PURPOSE.md of one skill."""
    from nightschool.loop.workspace import find

    skill = _named(name, find(folder))
    if as_json:
        output.data(asdict(skill))
    else:
        print(f"{skill.skill_md.rstrip()}\n\n{skill.purpose_md.rstrip()}".rstrip())


@app.command()
def validate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A workspace, a skills folder or one skill.", show_default=False)
    ] = HERE,
    as_json: Json = False,
) -> None:
    """Check skills against the rules of SKILL.md.

    Exit code 1: one of them breaks a rule.
    """
    from nightschool.disk import files
    from nightschool.loop.skills import faults
    from nightschool.loop.workspace import find

    if (folder / "SKILL.md").is_file():
        paths = [folder / "SKILL.md"]
    else:
        paths = sorted(folder.glob("*/SKILL.md")) or sorted(find(folder).skills.glob("*/SKILL.md"))
    found = [(path, fault) for path in paths for fault in faults(files.read_text(path), path.resolve().parent.name)]
    if as_json:
        output.data([{"file": str(path), "fault": fault} for path, fault in found])
    else:
        print("".join(f"{path}: {fault}\n" for path, fault in found), end="")
        output.say(f"{len(paths)} skills, {len(found)} faults")
    if found:
        raise typer.Exit(1)


@app.command()
def revoke(
    name: Name,
    folder: Dir = HERE,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is logged with the skill's full text.")] = "",
) -> None:
    """Remove a skill; its text and the reason stay in the wiki."""
    from nightschool.disk.errors import Problem
    from nightschool.loop.revoke import revoke as remove
    from nightschool.loop.workspace import find

    space = find(folder)
    _named(name, space)
    if not reason.strip():
        raise Problem(f"revoking {name} needs a reason", 'add --reason "why it goes"')
    remove(space, name, reason)
    output.say(f"revoked {name}; its text is kept in {space.wiki / 'skill-impact.md'}")


def _named(name: str, space: Workspace) -> Skill:
    from nightschool.disk.errors import Problem, nearest
    from nightschool.loop.skills import load

    skills = load(space.skills)
    if name not in skills:
        raise Problem(f"no skill is called {name!r}", nearest(name, skills))
    return skills[name]
