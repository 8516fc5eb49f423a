"""`sek import`: grown instruction files -> L0, triggers and pages, without losing a word.

`plan` reads and decides, and writes nothing; `apply` makes the change in one transaction and adds to the manifest by which
undo.py takes it back. Every paragraph of the sources then stands in exactly one place: L0, the page that every prompt
loads, or one topic page. One that two sources have is kept once; where the other was is in the log.

What is kept: a source that lies in the tree's folder under the name of a bootstrap file (AGENTS.md, CLAUDE.md, GEMINI.md)
becomes L0 itself, and what it was stands beside it as NAME.orig; all other sources stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.disk.errors import Problem
from nightschool.sek import importer_check, importer_core, importer_pages, importer_read, importer_triggers, index, undo
from nightschool.sek.importer_copies import Duplicate, drop
from nightschool.sek.importer_pages import ALWAYS_PAGE, Page
from nightschool.sek.importer_rules import Global, take_global
from nightschool.sek.importer_sections import Part, parts, sections
from nightschool.sek.record import Clock, Event, stamp, utc_now
from nightschool.sek.routing import ALWAYS, Routing, Trigger, rendered, with_trigger
from nightschool.sek.start import memory_files
from nightschool.sek.tree import ROUTING, Tree

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.sek.counting import Counter
    from nightschool.sek.importer_read import Source

BOOTSTRAPS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
L0_LEAST, L0_SHARE = 400, 0.10
WHOLE_SHARE = 0.34
"""What L0 and a route cost together, at most, as a share of the original."""
ROUTE_LEAST, ROUTE_MOST = 600, 4000
BY = "import"
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an import will do."""

    root: Path
    sources: tuple[Source, ...]
    files: Mapping[str, bytes | None]
    pages: tuple[Page, ...]
    duplicates: tuple[Duplicate, ...]
    notes: tuple[str, ...]
    bootstrap: str
    l0_budget: int
    before: int
    """Tokens that every session paid: the files and all that they import."""
    l0: int
    always: int
    """Tokens of the page that every prompt loads."""
    counts: Mapping[str, int]
    """Tokens of each page."""

    @property
    def after(self) -> int:
        """Tokens that every session pays now."""
        return self.l0 + self.always

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the same sources were imported before."""
        return not self.files


@dataclass(slots=True)
class _Read:
    opening: importer_core.Opening
    rules: list[Global]
    parts: list[Part]
    duplicates: list[Duplicate]


def plan(paths: Sequence[Path], root: Path, count: Count, engine: Engine | None = None) -> Plan:
    """What importing these files into the tree at `root` (new or not) would write."""
    root = root.resolve()
    tree = Tree(root)
    base = root if all(path.resolve().is_relative_to(root) for path in paths) else _base(paths)
    sources, notes = importer_read.read([path.resolve() for path in paths], base)
    before = sum(count(source.text) for source in sources)
    manifest = undo.load(root)
    if not (new := _unknown(sources, manifest, root)):
        routing = tree.routing()
        return Plan(root, sources, {}, (), (), notes, routing.bootstrap, routing.l0_budget, before, 0, 0, {})
    budget = max(L0_LEAST, int(L0_SHARE * before))
    fresh = not tree.exists()
    bootstrap = _bootstrap(new, root) if fresh else tree.routing().bootstrap
    _refuse_taken(root, bootstrap, new, fresh)
    read = _take_apart(new, count, fresh)
    pages = importer_pages.pages(read.parts, () if fresh else tree.pages(), _tags(tree, fresh))
    files: dict[str, bytes | None] = {page.path: page.text.encode() for page in pages}
    name = new[0].name
    if fresh:
        text = "\n".join(source.text for source in new)
        core = importer_core.core(read.opening, read.rules, pages, text, budget, count)
        files[bootstrap] = core.text.encode()
        over = core.over
    else:
        over = tuple(importer_core.rule_lines(read.rules, _tags(tree, fresh)))
    if over:
        files[ALWAYS_PAGE] = _always(tree, name, over).encode()
    always = count(_decoded(files.get(ALWAYS_PAGE)))
    l0 = count(_decoded(files[bootstrap]) if fresh else tree.read(bootstrap))
    triggers = _triggers(pages, bool(over), engine)
    loaded = _route_budget(before, l0 + always) + always
    files[ROUTING] = _routing(tree, fresh, triggers, Routing((), budget, loaded, bootstrap=bootstrap)).encode()
    files |= _indexes(root, files, count)
    files |= _originals(root, new, bootstrap, fresh)
    files |= {path: text.encode() for path, text in memory_files().items() if not tree.has(path)}
    counts = {path: count(_decoded(raw)) for path, raw in files.items() if path in {page.path for page in pages}}
    importer_check.check(new, files, read.duplicates)
    return Plan(
        root, new, files, tuple(pages), tuple(read.duplicates), notes, bootstrap, budget, before, l0, always, counts
    )


def apply(made: Plan, now: Clock = utc_now) -> None:
    """Carry a plan out, all of it or nothing."""
    if made.is_done:
        return
    from nightschool.sek.transaction import commit, writing

    tree = Tree(made.root)
    moment = stamp(now())
    kept = [
        {"source": each.source, "line": each.line, "first": f"{each.first_source}:{each.first_line}", "text": each.text}
        for each in made.duplicates
    ]
    data = {
        "sources": [{"name": source.name, "sha256": source.sha256} for source in made.sources],
        "pages": [page.path for page in made.pages],
        "tokens_before": made.before,
        "tokens_after": made.after,
        "duplicates": kept,
    }
    new = not (made.root / "memory").is_dir()
    with writing(tree) as current:
        manifest = undo.added(current, made.sources, made.files, moment, new)
        commit(current, {**made.files, undo.MANIFEST: manifest}, [Event("import", moment, None, data)])


def refresh(made: Plan, counter: Counter) -> None:
    """Bring the router's term cache in step, so that the first prompt need not."""
    from nightschool.sek.router import Router

    if not made.is_done:
        tree = Tree(made.root)
        Router.load(tree, counter).index.save(tree, counter)


def _take_apart(sources: Sequence[Source], count: Count, fresh: bool) -> _Read:
    """Sections, the opening of L0, the rules that hold everywhere, and parts."""
    roots = [sections(source, count) for source in sources]
    duplicates = drop(roots)
    opening = importer_core.take_opening(roots[0]) if fresh else importer_core.Opening(None, None)
    rules: list[Global] = []
    found: list[Part] = []
    for source, root in zip(sources, roots, strict=True):
        rules += take_global(root, imported=source.by is not None)
        found += parts(root)
    return _Read(opening, rules, found, duplicates)


def _triggers(pages: Sequence[Page], over: bool, engine: Engine | None) -> list[Trigger]:
    topics = [
        importer_triggers.Topic(page.path, (*page.part.path, *page.part.titles), page.part.text) for page in pages
    ]
    more = importer_triggers.asked(engine, topics) if engine else None
    words = importer_triggers.keywords(topics, more)
    named: set[str] = {ALWAYS}
    found = [Trigger(ALWAYS, (), (ALWAYS_PAGE,), by=BY, always=True)] if over else []
    for page in pages:
        name = page.path.rsplit("/", 1)[-1].removesuffix(".md")[:56].strip("-") or "page"
        name = next(each for each in (name, *(f"{name}-{n}" for n in range(2, 10_000))) if each not in named)
        named.add(name)
        found.append(Trigger(name, words[page.path], (page.path,), by=BY))
    return found


def _routing(tree: Tree, fresh: bool, triggers: Sequence[Trigger], settings: Routing) -> str:
    if fresh:
        return rendered(replace(settings, triggers=tuple(triggers)))
    text = tree.read(ROUTING)
    known = {trigger.id: trigger for trigger in tree.routing().triggers}
    for trigger in triggers:
        old = known.get(trigger.id)
        if old is not None and not (old.always and trigger.always):
            names = (f"{trigger.id}-{n}" for n in range(2, 10_000))
            trigger = replace(trigger, id=next(name for name in names if name not in known))
        if old is None or not old.always:
            text = with_trigger(text, trigger)
    return text


def _route_budget(before: int, paid: int) -> int:
    """Tokens that a route may load beside what is always paid."""
    return max(ROUTE_LEAST, min(ROUTE_MOST, int(WHOLE_SHARE * before) - paid))


def _always(tree: Tree, source: str, lines: Sequence[str]) -> str:
    """The page that every prompt loads, with what stands there already."""
    if tree.root.joinpath(ALWAYS_PAGE).is_file():
        return tree.read(ALWAYS_PAGE).rstrip() + "\n" + "".join(f"{line}\n" for line in lines)
    return importer_pages.rules_page(source, lines)


def _indexes(root: Path, files: Mapping[str, bytes | None], count: Count) -> dict[str, bytes | None]:
    """The index files that will be true then; one that a person wrote stays."""
    mine = Tree(root)
    made = index.render(mine.changed(files), count)
    return {path: text.encode() for path, text in made.items() if not mine.has(path) or index.is_ours(mine, path)}


def _originals(root: Path, sources: Sequence[Source], bootstrap: str, fresh: bool) -> dict[str, bytes | None]:
    """What the bootstrap files were, beside them; those that are not L0 name it, as agents follow `@FILE`."""
    files: dict[str, bytes | None] = {}
    for source in sources:
        if fresh and _in_place(source, root):
            files[f"{source.name}.orig"] = source.raw
            if source.name != bootstrap:
                files[source.name] = f"@{bootstrap}\n".encode()
    return files


def _bootstrap(sources: Sequence[Source], root: Path) -> str:
    return next((source.name for source in sources if _in_place(source, root)), BOOTSTRAPS[0])


def _in_place(source: Source, root: Path) -> bool:
    return source.name in BOOTSTRAPS and source.path.parent.resolve() == root and not source.path.is_symlink()


def _refuse_taken(root: Path, bootstrap: str, sources: Sequence[Source], fresh: bool) -> None:
    """Never write over what the import has not read."""
    if not fresh:
        mine = next((source for source in sources if _in_place(source, root) and source.name == bootstrap), None)
        if mine is not None:
            advice = "put the new text into another file and import that, or run sek import --undo first"
            raise Problem(f"{mine.name} is already this tree's L0", advice)
        return
    read = {source.path.resolve() for source in sources}
    path = root / bootstrap
    if path.exists() and path.resolve() not in read:
        raise Problem(f"{path} is there, and would become L0", f"import it too: add {path} to the files")
    for source in sources:
        beside = root / f"{source.name}.orig"
        if _in_place(source, root) and beside.exists():
            raise Problem(f"{beside} is in the way: the original would be kept there", "move it away")
    wiki = root / "wiki"
    if wiki.is_dir() and any(wiki.rglob("*.md")):
        raise Problem(f"{wiki} is there, but it is no SEK tree yet", "index it first: nightschool sek adopt")


def _unknown(sources: Sequence[Source], manifest: undo.Manifest, root: Path) -> tuple[Source, ...]:
    """The sources that were not imported yet; one that has changed since is a Problem."""
    new = []
    for source in sources:
        known = manifest.sha256(source.name)
        if known is None:
            new.append(source)
        elif known != source.sha256 and manifest.written(source.name) != source.sha256:
            advice = "put what is new into another file and import that, or run sek import --undo first"
            raise Problem(f"{source.name} has changed since it was imported", advice)
    return tuple(new)


def _tags(tree: Tree, fresh: bool) -> list[str]:
    if fresh:
        return []
    from nightschool.sek import bootstrap, rules

    core = [rule.tag for rule in bootstrap.critical(tree.read(tree.routing().bootstrap)) if rule.tag]
    return [*(rule.tag for rule in rules.every(tree)), *core]


def _base(paths: Sequence[Path]) -> Path:
    """The folder that holds all the files."""
    return Path(os.path.commonpath([path.resolve().parent for path in paths]))


def _decoded(raw: bytes | None) -> str:
    return raw.decode() if raw else ""


__all__ = ["Duplicate", "Plan", "apply", "plan", "refresh"]
