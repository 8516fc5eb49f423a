"""`nightschool bench l0`: the token tax, what standing instructions cost before the first word is said.

Counted with the tokenizer of every model that is on this machine (of the others it is unknown, and null), timed with one
model; a day and a year are the same figures times the sessions of a day. Where the tokens are (`heading`, `paragraph`) and
how they grow (`growth`) are told by one tokenizer, the reference: that of the small model that anybody can pull.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.bench import l0_cost, l0_headings, l0_read
from nightschool.bench.l0_growth import QUICK, SIZES, growth
from nightschool.bench.l0_prefill import Prefill, Tell, Timings, timings
from nightschool.bench.result import Measure, Record, Value, record, this_machine
from nightschool.disk.errors import Problem
from nightschool.engine.models import ModelSpec, load_models

if TYPE_CHECKING:
    from nightschool.bench.l0_read import Standing
    from nightschool.engine.models import Models
    from nightschool.engine.tokens import Tokens
    from nightschool.sek.importer_read import Source
    from nightschool.sek.tree import Tree

REFERENCE = "smollm2-135m"
SESSIONS = 20
SHORT = 2000
"""Tokens whose prefill is quick."""
PERIODS = {"session": 0, "day": 1, "year": 365}
"""What the tax is told for: one session, or so many days."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured: one file or folder, or two, before and after. `model` (default: the student) is timed."""

    paths: tuple[Path, ...] = (Path(),)
    sessions_per_day: int = SESSIONS
    prompts: tuple[str, ...] = ()
    model: str | None = None
    models: Path | None = None
    backend: str | None = None
    repeats: int = 3
    quick: bool = False
    """Time only what is short, once, and grow to few pages."""


@dataclass(slots=True)
class Counting:
    """One model's tokenizer as a counter, which the router takes too."""

    name: str
    tokens: Tokens

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.tokens.plain(text))


def measure(settings: Settings, tell: Tell = lambda _: None) -> Record:
    """Count, time and grow."""
    machine = this_machine()
    sides = _sides(settings)
    models = load_models(settings.models, Path.cwd())
    specs = dict(_specs(models, settings.backend))
    counters = {alias: counting for alias, spec in specs.items() if (counting := counting_of(spec))}
    timed = _timings(settings, models, sides, counters, tell)
    notes = list(timed.notes)
    measures = [
        one
        for label, side in sides.items()
        for alias, spec in specs.items()
        for one in _tax(
            label,
            side,
            spec,
            counters.get(alias),
            timed.texts.get(label) if timed.model and timed.model.alias == alias else None,
            settings.sessions_per_day,
        )
    ]
    notes += [note for side in sides.values() for note in side.notes]
    if reference := _reference(counters):
        notes.append(f"headings, paragraphs, routes and growth are counted with the tokenizer of {reference.name}")
        measures += located(sides, reference)
        measures += _routed(sides, reference, settings.prompts)
        measures += growth(reference, QUICK if settings.quick else SIZES, tell)
    told: dict[str, Value] = {
        **{label: str(path) for label, path in zip(sides, _paths(settings), strict=True)},
        "sessions_per_day": settings.sessions_per_day,
        "repeats": settings.repeats,
    }
    return record("l0", measures, model=timed.model, settings=told, notes=notes, machine=machine)


def _paths(settings: Settings) -> list[Path]:
    """The paths to compare; an imported tree alone is compared with what it was imported from."""
    if len(settings.paths) == 1:
        side = l0_read.standing(settings.paths[0])
        if side.tree and (before := l0_read.original(side.tree)):
            return [before, settings.paths[0]]
    return list(settings.paths)


def _sides(settings: Settings) -> dict[str, Standing]:
    found = [l0_read.standing(path) for path in _paths(settings)]
    return {found[0].name: found[0]} if len(found) == 1 else dict(zip(("before", "after"), found, strict=True))


def _specs(models: Models, backend: str | None) -> Iterator[tuple[str, ModelSpec]]:
    """Every model that has a source for the backend that is asked for, or that fits this machine."""
    from nightschool.engine import select

    for alias in models:
        try:
            yield alias, select.resolve(models, alias, backend)[0]
        except Problem:
            continue


def counting_of(spec: ModelSpec) -> Counting | None:
    """The tokenizer of a model, if it is on this machine."""
    from nightschool.engine.tokens import Tokens

    file = spec.folder / "tokenizer.json"
    return Counting(spec.alias, Tokens(file)) if spec.kind != "http" and spec.ready and file.is_file() else None


def _reference(counters: Mapping[str, Counting]) -> Counting | None:
    return counters.get(REFERENCE) or next(iter(counters.values()), None)


def _timings(
    settings: Settings, models: Models, sides: Mapping[str, Standing], counters: Mapping[str, Counting], tell: Tell
) -> Timings:
    """The prefill of each side; in a first look, of what is short."""
    counting = counters.get(settings.model or models.roles.student)
    if counting is None and not settings.model:
        return Timings(None, {}, (f"no seconds: {models.roles.student} has no tokenizer on this machine",))
    texts = {label: _text(side.sources) for label, side in sides.items()}
    lengths = {label: counting.count(text) if counting else 0 for label, text in texts.items()}
    timed = {label: (texts[label], n) for label, n in lengths.items() if n <= SHORT or not settings.quick}
    found = timings(models, settings.model, settings.backend, timed, 1 if settings.quick else settings.repeats, tell)
    left = [
        f"{label}: {n} tokens take long, so they are not timed; nightschool bench l0 does it"
        for label, n in lengths.items()
        if label not in timed
    ]
    return replace(found, notes=(*left, *found.notes))


def _text(sources: Sequence[Source]) -> str:
    return "\n".join(source.text for source in sources)


def _tax(
    label: str,
    side: Standing,
    spec: ModelSpec,
    counting: Counting | None,
    timing: Prefill | None,
    sessions: int,
) -> Iterator[Measure]:
    """What one side costs one model."""
    where: dict[str, Value] = {"text": label, "model": spec.alias}
    if counting is None:
        pull = f"{spec.alias} is not on this machine: nightschool models pull {spec.alias}"
        why = f"{spec.alias} is on a server" if spec.kind == "http" else pull
        yield Measure("tokens", "tok", (), params={**where, "per": "session"}, note=why)
        return
    tokens = sum(counting.count(source.text) for source in side.sources)
    kv = l0_cost.kv_bytes(spec)
    for period, days in PERIODS.items():
        times = days * sessions or 1
        params = {**where, "per": period}
        yield Measure("tokens", "tok", (float(tokens * times),), params=params)
        if period == "session":
            yield Measure("context", "%", (100 * tokens / spec.context,), params=params)
        if timing:
            yield Measure("cold", "s", tuple(times * one for one in timing.cold), params=params)
            yield Measure("cached", "s", tuple(times * one for one in timing.cached), params=params)
        if kv is not None:
            yield Measure("KV", "MB", (tokens * kv * times / 1e6,), params=params)


def located(sides: Mapping[str, Standing], counting: Counting) -> Iterator[Measure]:
    """The tokens of each heading and each paragraph."""
    for label, side in sides.items():
        for source in side.sources:
            starts = [start for _, start in counting.tokens.located(source.text)]
            for name, parts in (
                ("heading", l0_headings.headings(source.text, starts)),
                ("paragraph", l0_headings.paragraphs(source.text, starts)),
            ):
                for part in parts:
                    at = f"{source.name}:{part.line}"
                    params: dict[str, Value] = {"text": label, "at": at, name: part.title}
                    yield Measure(name, "tok", (float(part.tokens),), params=params)


def _routed(sides: Mapping[str, Standing], counting: Counting, prompts: Sequence[str]) -> Iterator[Measure]:
    """What a prompt costs in all: of a tree L0 and what is routed, a sample a prompt."""
    for label, side in sides.items() if prompts else ():
        if side.tree:
            totals = _with_pages(side.tree, counting, prompts)
        else:
            totals = (float(sum(counting.count(source.text) for source in side.sources)),)
        yield Measure("prompt", "tok", totals, params={"text": label})


def _with_pages(tree: Tree, counting: Counting, prompts: Sequence[str]) -> tuple[float, ...]:
    """L0 and the pages of each prompt, counted here: what the tree keeps of counts may be another tokenizer's."""
    from nightschool.sek.router import Router

    router = Router.load(tree, counting)
    files = [[tree.routing().bootstrap, *(load.path for load in router.route(prompt).loads)] for prompt in prompts]
    return tuple(float(sum(counting.count(tree.read(path)) for path in paths)) for paths in files)
