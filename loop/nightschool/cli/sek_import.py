"""`nightschool sek import | lint`: grown instruction files become a tree, and what is wrong with a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.options import TREE, Backend, Json, Model, ModelsFile, SekDir

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.sek.importer import Plan
    from nightschool.sek.lint import Finding

LONGEST = 60
"""Characters of a text that a notice shows."""


def add(app: typer.Typer) -> None:
    """Add these commands to `nightschool sek`."""
    app.command("import")(import_files)
    app.command("lint")(lint)


def import_files(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="CLAUDE.md, AGENTS.md and their like; @imports are followed.", show_default=False
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="The tree's folder (default: the nearest tree, else where FILE is)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; show the tree and the tokens.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last import back, byte for byte.")] = False,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Split grown instruction files into L0, triggers and pages, without losing a word.

    Every paragraph then stands in exactly one place. A file that becomes L0 is kept beside it as NAME.orig. With --model,
    the model names more keywords for each page.
    """
    from nightschool.disk.errors import Problem

    if undo and files:
        raise Problem("--undo takes no files: it takes back the last import", "leave the files out")
    if undo:
        _undo(root, as_json)
        return
    if not files:
        raise Problem("no file to import", "name one: nightschool sek import CLAUDE.md")
    from nightschool.sek import importer
    from nightschool.sek.counting import counter

    place = _place(root, files)
    counted = counter(cwd=place)
    with engine(model, models, backend) as loaded:
        made = importer.plan(files, place, counted.count, loaded)
    if not dry_run:
        importer.apply(made)
        importer.refresh(made, counted)
    if as_json:
        output.data(_record(made, dry_run, counted.estimated))
    else:
        _draw(made, dry_run, counted.estimated)


def lint(
    root: SekDir = TREE,
    fix: Annotated[bool, typer.Option("--fix", help="Make the changes that are safe: triggers and indexes.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Show notes too: what imported rules do not tell.")] = False,
    model: Model = None,
    models: ModelsFile = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Check a tree: links, triggers, rules, L0's budget, secrets. With --model, rules are also checked for contradictions.

    Exit code 1: an error is left.
    """
    from nightschool.sek.tree import Tree

    check(Tree.find(root).root, None, fix=fix, notes=notes, choice=(model, models, backend), as_json=as_json)


def check(
    root: Path,
    more: Callable[[], Sequence[Finding]] | None,
    *,
    fix: bool,
    notes: bool,
    choice: tuple[str | None, Path | None, str | None],
    as_json: bool,
) -> None:
    """Run the linter (and `more` checks), print what it found, and exit with 1 if an error is left."""
    from nightschool.sek import lint as linter
    from nightschool.sek.counting import counter
    from nightschool.sek.tree import Tree

    tree = Tree(root)
    count = counter(cwd=root).count
    mended = linter.fix(tree, count) if fix else []
    with engine(*choice) as loaded:
        found = linter.run(tree, count, loaded)
    found = (*found, *(more() if more else ()))
    if as_json:
        records = [finding.record() for finding in found]
        output.data({"schema": 1, "mended": [finding.record() for finding in mended], "findings": records})
    else:
        _show(mended, found, notes, fix)
    if linter.errors(found):
        raise typer.Exit(1)


class engine:
    """A loaded model for the time of a block; None if none was asked for."""

    def __init__(self, model: str | None, models: Path | None, backend: str | None) -> None:
        """`model`: an alias of models.toml."""
        self.model, self.models, self.backend = model, models, backend
        self.loaded: Engine | None = None

    def __enter__(self) -> Engine | None:
        """Load it, in a process that is sealed first."""
        if self.model is None:
            return None
        from nightschool.cli.engines import load_models
        from nightschool.engine import offline, select

        known = load_models(self.models)
        offline.seal(known.hosts())
        spec, choice = select.resolve(known, self.model, self.backend)
        output.say(f"loading {self.model} with {choice.name}: {choice.reason}")
        self.loaded = select.open_engine(spec, backend=choice.name, say=output.say)
        return self.loaded

    def __exit__(self, *_: object) -> None:
        """Free its memory."""
        if self.loaded is not None:
            self.loaded.close()


def _place(root: Path | None, files: Sequence[Path]) -> Path:
    """The folder of the tree: as told, else the nearest tree, else that of the first file."""
    from nightschool.disk.errors import Problem
    from nightschool.sek.tree import Tree

    if root is not None:
        if not root.is_dir():
            raise Problem(f"{root} is no folder", "make it, or check the path")
        return root.resolve()
    try:
        return Tree.find(files[0].resolve().parent).root
    except Problem:
        return files[0].resolve().parent


def _undo(root: Path | None, as_json: bool) -> None:
    from nightschool.sek.tree import Tree
    from nightschool.sek.undo import undo

    place = Tree.find(root).root
    paths = undo(place)
    if as_json:
        output.data({"schema": 1, "undone": paths})
    else:
        output.say(f"took the last import back: {len(paths)} files in {place} are as before")


def _record(made: Plan, dry_run: bool, estimated: bool) -> dict[str, Any]:
    return {
        "schema": 1,
        "dry_run": dry_run,
        "root": str(made.root),
        "sources": [{"name": source.name, "by": source.by, "sha256": source.sha256} for source in made.sources],
        "bootstrap": made.bootstrap,
        "l0_budget": made.l0_budget,
        "tokens": {
            "before": made.before,
            "after": made.after,
            "l0": made.l0,
            "always": made.always,
            "estimated": estimated,
        },
        "pages": [
            {"path": page.path, "tokens": made.counts[page.path], "title": page.title, "tag": page.tag}
            for page in made.pages
        ],
        "files": sorted(made.files),
        "duplicates": [
            {"at": f"{each.source}:{each.line}", "kept": f"{each.first_source}:{each.first_line}", "text": each.text}
            for each in made.duplicates
        ],
        "notes": list(made.notes),
    }


def _draw(made: Plan, dry_run: bool, estimated: bool) -> None:
    for note in made.notes:
        output.say(f"note: {note}")
    if made.is_done:
        output.say("nothing to do: imported before, and unchanged")
        return
    for each in made.duplicates:
        place = f"{each.first_source}:{each.first_line}"
        output.say(f"kept once: {each.source}:{each.line} is {place}: {_cut(' '.join(each.text.split()))}")
    rows = [(str(made.l0), f"{made.bootstrap}  (L0, in every session)")]
    rows += [(str(made.always), "wiki/rules/always.md  (past L0's budget, in every session)")] if made.always else []
    rows += [(str(made.counts[page.path]), page.path) for page in made.pages]
    output.listing(("tokens", "file"), rows)
    share = f" ({100 * made.after / made.before:.0f}%)" if made.before > made.after else ""
    about = ", estimated: no tokenizer on this machine" if estimated else ""
    typer.echo(f"every session paid {made.before} tokens, now {made.after}{share}{about}")
    if dry_run:
        output.say("nothing was written: leave out --dry-run to do it")
    else:
        output.say(f"{len(made.pages)} pages in {made.root}; nightschool sek import --undo takes it back")
        output.say("next: nightschool sek hook --install claude-code (prompts then bring their pages along), and")
        output.say("      nightschool sek init --agent NAME (gives the agent /register, /promote and /revoke)")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _show(mended: Sequence[Finding], found: Sequence[Finding], notes: bool, fixed: bool) -> None:
    from nightschool.sek.lint import errors

    for finding in mended:
        output.say(f"mended {finding.place}: {finding.message}")
    for finding in found:
        if finding.level != "note" or notes:
            typer.echo(f"{finding.place}: {finding.level}: {finding.message} [{finding.code}]")
            typer.echo(f"    why: {finding.why}")
            typer.echo(f"    fix: {finding.advice}" + (" (--fix does it)" if finding.fix and not fixed else ""))
    wrong = errors(found)
    warnings = sum(finding.level == "warning" for finding in found)
    hidden = "" if notes else " (--notes shows them)"
    output.say(f"{wrong} errors, {warnings} warnings, {len(found) - wrong - warnings} notes{hidden}")
