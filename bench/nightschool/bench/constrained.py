"""What a grammar costs: its building, its compiling, its masks; and constrained decoding beside free, on the loaded model.

For each grammar, on the model's own vocabulary: `build` makes our grammar of its source, `compile` makes a matcher of it
from scratch, `open` one of a grammar that was seen before, `fill` is one mask for one row on the way along a reply that is
drawn evenly from what the masks allow, `forced` the share of that reply's tokens which the grammar left no choice about.
`constrained / free` is a ratio of tokens a second of one run, the two by turns, with as many rows and about as many
tokens, with the prompts and without. `valid` is the share of replies that finished inside their grammar.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from nightschool.bench import grown_wiki
from nightschool.bench.loaded import Ran, ask, find, opened, prompt, run, text_grammar
from nightschool.bench.result import Measure, Record, Value, record, this_machine

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.grammar import Grammar
    from nightschool.engine.vocabulary import Vocabulary

HELP = "what grammars cost: compile, masks, constrained against free decoding; our own over growing wikis"
SHORT = 48


@dataclass(frozen=True, slots=True)
class Settings:
    """Wikis by their target lines, with commas; rows and reply tokens of the decoding; steps of a walk over masks."""

    model: str | None = None
    backend: str | None = None
    models: str | None = None
    targets: str = "10,100,1000,10000"
    batch: int = 32
    gen: int = 64
    steps: int = 48
    repeats: int = 3
    decode: bool = True


def measure(settings: Settings, tell: Callable[[str], None] = lambda line: None) -> Record:
    """Every grammar on the model's vocabulary, then the model with and without one."""
    from nightschool.engine.chat import Chat

    machine, spec = this_machine(), find(settings.model, settings.backend, settings.models)
    vocabulary, measures = Chat(spec).vocabulary, list[Measure]()
    for name, targets, build in sources(settings):
        tell(f"{name}, {targets} target lines" if targets else name)
        measures += _costs(vocabulary, name, targets, build, settings)
    if not settings.decode:
        return record("constrained", measures, settings=asdict(settings), machine=machine)
    with opened(spec, settings.backend, settings.batch) as (engine, model):
        measures += _decoding(engine, settings, tell)
    return record("constrained", measures, model=model, settings=asdict(settings), machine=machine)


def sources(settings: Settings) -> Iterator[tuple[str, int, Callable[[], Grammar]]]:
    """The grammars: name, target lines of the wiki (0: none), how it is built."""
    from nightschool.engine.grammar import Grammar

    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "roles": {"type": "array", "items": {"enum": ["admin", "user", "guest"]}, "minItems": 1, "maxItems": 3},
        },
        "required": ["name", "age", "roles"],
        "additionalProperties": False,
    }
    yield "choice", 0, lambda: Grammar.choice(["yes", "no", "unsure"])
    yield "text", 0, lambda: text_grammar(settings.gen)
    yield "schema", 0, lambda: Grammar.from_schema(schema)
    for targets in map(int, settings.targets.split(",") if settings.targets else ()):
        state, seen = grown_wiki.state(targets)
        yield "maintainer", targets, lambda state=state, seen=seen: grown_wiki.maintainer(state, seen)  # type: ignore[misc]
        yield "proposer", targets, lambda state=state, seen=seen: grown_wiki.proposer(state, seen)  # type: ignore[misc]


@dataclass(slots=True)
class Walk:
    """One reply drawn over the masks of one row; milliseconds, and the tokens that were forced."""

    open: float
    fills: list[float]
    tokens: int
    forced: int


def walk(vocabulary: Vocabulary, grammar: Grammar, steps: int, seed: int) -> Walk:
    """Draw evenly from the masks, `steps` of them at most."""
    import numpy as np

    from nightschool.engine.constraint import GrammarBatch
    from nightschool.engine.vocabulary import unpack

    draw, batch = np.random.default_rng(seed), GrammarBatch(vocabulary)
    start = time.perf_counter()
    batch.add(0, grammar, grammar.limit)
    done = Walk((time.perf_counter() - start) * 1e3, [], 0, 0)
    while not batch.finished(0) and len(done.fills) < steps:
        run = batch.forced(0)
        done.tokens, done.forced = done.tokens + len(run), done.forced + len(run)
        if batch.finished(0):
            break
        start = time.perf_counter()
        mask = batch.fill([0])
        done.fills.append((time.perf_counter() - start) * 1e3)
        token = int(draw.choice(np.flatnonzero(unpack(mask[0]))))
        batch.consume([0], [token])
        done.tokens += 1
    return done


def _costs(
    vocabulary: Vocabulary, name: str, targets: int, build: Callable[[], Grammar], settings: Settings
) -> Iterator[Measure]:
    from nightschool.engine.grammar import matcher

    params: Mapping[str, Value] = {"grammar": name, "targets": targets, "vocabulary": vocabulary.size}
    built = list[float]()
    for _ in range(settings.repeats + 1):
        start = time.perf_counter()
        grammar = build()
        built.append((time.perf_counter() - start) * 1e3)
    compiled = list[float]()
    for _ in range(settings.repeats + 1):
        start = time.perf_counter()
        matcher(vocabulary.tokenizer, grammar.lark)
        compiled.append((time.perf_counter() - start) * 1e3)
    walks = [walk(vocabulary, grammar, settings.steps, seed) for seed in range(settings.repeats + 1)][1:]
    yield Measure("build", "ms", tuple(built[1:]), params=params)
    yield Measure("compile", "ms", tuple(compiled[1:]), params=params)
    yield Measure("open", "ms", tuple(one.open for one in walks), params=params)
    yield Measure("fill", "ms", tuple(each for one in walks for each in one.fills), params=params)
    shares = tuple(one.forced / one.tokens for one in walks if one.tokens)
    yield Measure("forced", "share", shares, "neither", params)


def _decoding(engine: Engine, settings: Settings, tell: Callable[[str], None]) -> Iterator[Measure]:
    """The two by turns; grammars are opened within the time of the constrained batch."""
    runs: dict[str, list[Ran]] = {"free": [], "constrained": []}
    for number in range(settings.repeats + 1):
        for side, kept in runs.items():
            tell(f"{side}, run {number} of {settings.repeats}" if number else f"{side}, warm-up")
            grammar = text_grammar(settings.gen) if side == "constrained" else None
            names = [f"{side}/{number}/{row}" for row in range(settings.batch)]
            ran = run(engine, [ask(prompt(engine, SHORT, name), settings.gen, grammar) for name in names])
            kept += [ran] if number else []
    params: Mapping[str, Value] = {"batch": settings.batch}
    for after in ("start", "first token"):
        rates = {side: [_rate(one, after) for one in ran] for side, ran in runs.items()}
        told = {**params, "from": after}
        for side, each in rates.items():
            yield Measure(side, "tokens/s", tuple(each), "higher", told)
        ratios = [mine / other for mine, other in zip(rates["constrained"], rates["free"], strict=True)]
        yield Measure("constrained / free", "ratio", tuple(ratios), "higher", told)
    held = runs["constrained"]
    yield Measure("valid", "share", tuple(_share(one) for one in held), "higher", params)
    forced = tuple(sum(r.usage.forced_tokens or 0 for r in one.replies) / max(one.generated, 1) for one in held)
    yield Measure("forced in decoding", "share", forced, "neither", params)
    lengths = tuple(one.generated / len(one.replies) for ran in runs.values() for one in ran)
    yield Measure("tokens a reply", "tokens", lengths, "neither", params, "free and constrained")


def _rate(ran: Ran, after: str) -> float:
    """Tokens a second from the start of the batch, or from its last first token: the steps of decoding alone."""
    if after == "start":
        return ran.generated / ran.seconds
    return (ran.generated - len(ran.replies)) / (ran.seconds - ran.first)


def _share(ran: Ran) -> float:
    return sum(reply.valid for reply in ran.replies) / len(ran.replies)
