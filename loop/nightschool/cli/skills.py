"""`nightschool skills`: list, show, validate, revoke."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Dir, Json

app = typer.Typer(help="The skills that the gate accepted.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The skill's name.")]


@app.command("list")
def list_skills(folder: Dir = HERE, as_json: Json = False) -> None:
    """Every accepted skill, one a line."""
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
def show(name: Name, folder: Dir = HERE) -> None:
    """SKILL.md and PURPOSE.md of one skill."""
    skill = _get(name, folder)
    print(f"{skill.skill_md.rstrip()}\n\n{skill.purpose_md.rstrip()}")


@app.command()
def validate(folder: Annotated[Path, typer.Argument(help="A workspace, a skills folder or one skill.")] = HERE) -> None:
    """Check skills against the SKILL.md rules; exit 1 when one breaks them."""
    from nightschool.disk import files
    from nightschool.loop.skills import faults
    from nightschool.loop.workspace import find

    if (folder / "SKILL.md").is_file():
        paths = [folder / "SKILL.md"]
    else:
        paths = sorted(folder.glob("*/SKILL.md")) or sorted(find(folder).skills.glob("*/SKILL.md"))
    found = [(path, fault) for path in paths for fault in faults(files.read_text(path), path.resolve().parent.name)]
    for path, fault in found:
        print(f"{path}: {fault}")
    output.say(f"{len(paths)} skills, {len(found)} faults")
    if found:
        raise typer.Exit(1)


@app.command()
def revoke(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is logged with the skill's full text.")],
    folder: Dir = HERE,
) -> None:
    """Remove a skill; its full text and the reason stay in skill-impact.md."""
    from nightschool.loop.revoke import revoke as remove
    from nightschool.loop.workspace import find

    space = find(folder)
    _get(name, folder)
    remove(space, name, reason)
    output.say(f"revoked {name}; its text is kept in {space.wiki / 'skill-impact.md'}")


def _get(name: str, folder: Path):  # type: ignore[no-untyped-def]
    from nightschool.disk.errors import Problem, nearest
    from nightschool.loop.skills import load
    from nightschool.loop.workspace import find

    skills = load(find(folder).skills)
    if name not in skills:
        raise Problem(f"no skill is called {name!r}", nearest(name, skills))
    return skills[name]
