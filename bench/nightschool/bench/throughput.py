"""Tokens a second: prompts read, tokens written, and both, by the width of the batch; llama-bench's names.

`pp512` reads prompts of 512 tokens and writes one token each, `tg128` writes 128 tokens after a short prompt and is timed
from the last first token on, `pp512+tg128` is both by the clock. What the engine counted is divided by the clock: prompt
tokens without those from a cache, and tokens as they were generated. `tg128` with `grammar` writes a text that its
grammar makes long enough; free text may end sooner, and a note says when it did. One run of each kind warms up and is not
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from nightschool.bench.loaded import Ran, ask, find, opened, peak_memory, prompt, run, text_grammar, watts
from nightschool.bench.result import Measure, Record, Value, record, this_machine

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.types import Request

HELP = "tokens a second, by batch width, with and without a grammar; first token, memory, energy"
SHORT = 48
"""Tokens of the prompt before text that is timed by itself, the template's own among them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run: batch widths as a list with commas, prompt and reply lengths in tokens, 0 to leave a kind out."""

    model: str | None = None
    backend: str | None = None
    models: str | None = None
    batch: str = "1,8,32"
    prompt: int = 512
    gen: int = 128
    grammar: bool = True
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """One line of the table: how long prompt and reply are, and whether a grammar holds the reply."""

    name: str
    prompt: int
    gen: int
    grammar: bool = False


def measure(settings: Settings, tell: Callable[[str], None] = lambda line: None) -> Record:
    """Load the model once and run every kind at every width."""
    machine, spec = this_machine(), find(settings.model, settings.backend, settings.models)
    widths = [int(width) for width in settings.batch.split(",")]
    measures: list[Measure] = []
    notes: list[str] = []
    with opened(spec, settings.backend, max(widths)) as (engine, model):
        for width in widths:
            for kind in kinds(settings):
                tell(f"{kind.name} @ b{width}{' with a grammar' if kind.grammar else ''}")
                ran = list(_repeats(engine, kind, width, settings.repeats))
                measures += _figures(kind, width, ran)
                if early := sum(one.early for one in ran) if not kind.grammar and kind.gen > 1 else 0:
                    notes.append(f"{kind.name} @ b{width}: {early} replies ended sooner; what came is counted")
            measures.append(
                Measure("peak memory", "bytes", (float(peak_memory()),), params={"batch": width}, note="so far")
            )
    return record("throughput", measures, model=model, settings=asdict(settings), notes=notes, machine=machine)


def kinds(settings: Settings) -> Iterator[Kind]:
    """The lines of the table, in their order."""
    reads, writes = settings.prompt, settings.gen
    if reads:
        yield Kind(f"pp{reads}", reads, 1)
    if writes:
        yield Kind(f"tg{writes}", SHORT, writes)
        if settings.grammar:
            yield Kind(f"tg{writes}", SHORT, writes, grammar=True)
    if reads and writes:
        yield Kind(f"pp{reads}+tg{writes}", reads, writes)


def _repeats(engine: Engine, kind: Kind, width: int, repeats: int) -> Iterator[Ran]:
    """The runs that count; each has prompts of its own, for what was read once is cached."""
    for number in range(repeats + 1):
        ran = run(engine, _requests(engine, kind, width, number))
        if number:
            yield ran


def _requests(engine: Engine, kind: Kind, width: int, number: int) -> list[Request]:
    grammar = text_grammar(kind.gen) if kind.grammar else None
    names = [f"{kind.name}/{width}/{number}/{row}{'g' * kind.grammar}" for row in range(width)]
    return [ask(prompt(engine, kind.prompt, name), kind.gen, grammar) for name in names]


def _figures(kind: Kind, width: int, runs: list[Ran]) -> Iterator[Measure]:
    params: Mapping[str, Value] = {"batch": width, "grammar": kind.grammar}
    rates = tuple(rate for one in runs if (rate := _rate(kind, one)) is not None)
    yield Measure(kind.name, "tokens/s", rates, "higher", params)
    if kind.gen == 1:
        yield Measure("first token", "s", tuple(one.first for one in runs), "lower", {**params, "prompt": kind.prompt})
    drawn = watts()
    joules = tuple(rate / drawn for rate in rates) if drawn else ()
    yield Measure(f"{kind.name} energy", "tokens/J", joules, "higher", params, "" if drawn else "no sensor tells")


def _rate(kind: Kind, ran: Ran) -> float | None:
    """Tokens a second; None where nothing was left to time."""
    if kind.gen == 1:
        return ran.computed / ran.seconds
    if "+" in kind.name:
        return (ran.computed + ran.generated) / ran.seconds
    rest, after = ran.generated - len(ran.replies), ran.seconds - ran.first
    return rest / after if rest > 0 and after > 0 else None
