"""The kernels of this machine against the specification: same ids, log probabilities, and how long each takes.

Pure: it prints nothing and writes nothing. Which kernels there are, and why one cannot run here, is told by
`implementations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from nightschool.kernels import reference
from nightschool.kernels.implementations import Implementation, implementations
from nightschool.kernels.reference import NOTHING, Floats, Rows, Sampled, Words

WIDTHS, BATCHES = (5003, 49_152, 151_936), (1, 8, 32)
SAMPLINGS = {"greedy": (0.0, 0, 1.0), "temperature": (0.7, 0, 1.0), "top-k, top-p": (0.7, 20, 0.95)}
MASKS = ("none", "tiny", "half")
"""How many tokens are allowed: all, as few as a grammar allows, half of them."""
DTYPES = ("float32", "float16", "bfloat16")
FEW_ALLOWED = 24
PADDING = 3
REPEATS, PATIENCE = 5, 0.25
"""How often a case is timed after a first time, which may compile; after so many seconds no more."""
TIE, LOGPROB = 1e-5, 1e-4
"""Logarithms differ between libraries in the last digit: scores this close may swap places."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is drawn from: logits (batch, width) in a dtype."""

    width: int
    batch: int
    sampling: str
    mask: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Measured:
    """How one kernel did on one case."""

    kernel: str
    case: Case
    differing: int
    """Rows with another id than the specification's, near ties aside."""
    logprob_difference: float
    microseconds: float

    @property
    def agrees(self) -> bool:
        """Whether it did as specified."""
        return not self.differing and self.logprob_difference <= LOGPROB


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: it ran, cannot run here, or broke."""

    name: str
    device: str
    missing: str | None
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was found on this machine."""

    kernels: Sequence[Kernel]
    measured: Sequence[Measured]
    seconds: float

    @property
    def agrees(self) -> bool:
        """Whether every kernel that can run here does as specified."""
        return all(each.agrees for each in self.measured) and not any(each.broken for each in self.kernels)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"agrees": self.agrees, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Given:
    """The input of one case; the logits are exact in its dtype."""

    logits: Floats
    mask: Words | None
    rows: Rows
    vocab: int


def cases() -> Iterator[Case]:
    """Every shape, sampling and mask; the dtypes take turns by shape, so that the times of a shape can be compared."""
    for (w, width), (b, batch), sampling, mask in product(enumerate(WIDTHS), enumerate(BATCHES), SAMPLINGS, MASKS):
        yield Case(width, batch, sampling, mask, DTYPES[(w + b) % len(DTYPES)])


def run(tell: Callable[[str], None] = lambda _: None, chosen: Sequence[Case] | None = None) -> Report:
    """Try every kernel on every case; `tell` hears what comes next."""
    began = perf_counter()
    kernels = list(implementations())
    broken: dict[str, str] = {}
    measured: list[Measured] = []
    for case in list(cases()) if chosen is None else chosen:
        tell(f"vocabulary {case.width}, batch {case.batch}")
        given = make(case)
        started = perf_counter()
        want = reference.sample(given.logits, given.mask, given.rows, given.vocab)
        measured.append(Measured("reference", case, 0, 0.0, (perf_counter() - started) * 1e6))
        for kernel in kernels:
            if kernel.missing is None and kernel.name not in broken:
                try:
                    measured.append(_measure(kernel, case, given, want))
                except Exception as error:  # a kernel that does not compile here must not hide the others
                    broken[kernel.name] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    told = [Kernel(each.name, each.device, each.missing, broken.get(each.name)) for each in kernels]
    return Report([Kernel("reference", "cpu", None), *told], measured, perf_counter() - began)


def make(case: Case) -> Given:
    """The input of a case, the same each time."""
    rng = np.random.default_rng([case.width, case.batch])
    logits = _narrowed(rng.normal(0, 4, (case.batch, case.width)).astype(np.float32), case.dtype)
    words = (case.batch, -(-case.width // 32))
    mask = None if case.mask == "none" else rng.integers(-(2**31), 2**31, words, dtype=np.int32)
    if mask is not None and case.mask == "tiny":
        mask[:] = 0
        for row in mask:
            for token in rng.integers(0, case.width - PADDING, FEW_ALLOWED).tolist():
                row.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)
    settings = SAMPLINGS[case.sampling]
    return Given(logits, mask, Rows.of([(*settings, 1000 + i, 7 * i) for i in range(case.batch)]), case.width - PADDING)


def differing(given: Given, got: Sampled, want: Sampled) -> list[int]:
    """The rows whose ids differ by more than a near tie explains."""
    rows = np.flatnonzero(got.ids != want.ids).tolist()
    return [i for i in rows if not _near_tie(given, i, [int(got.ids[i]), int(want.ids[i])])]


def _near_tie(given: Given, i: int, ids: list[int]) -> bool:
    """Whether both ids were drawn with all but the same score; a greedy row has none of its own making."""
    rows = given.rows
    if NOTHING in ids or rows.temperature[i] == 0:
        return False
    scores = reference.clean(given.logits[i, : given.vocab]) / rows.temperature[i]
    if given.mask is not None:
        scores[~reference.unpack(given.mask[i], given.vocab)] = -np.inf
    scores = reference.keep_top(scores, int(rows.top_k[i]), float(rows.top_p[i]))
    first, second = (scores + reference.gumbel(int(rows.seed[i]), int(rows.position[i]), given.vocab))[ids]
    return bool(np.isfinite(first) and abs(first - second) <= TIE * max(1, abs(first)))


def logprob_difference(got: Sampled, want: Sampled) -> float:
    """The largest, over the rows with the same id."""
    same = (got.ids == want.ids) & (got.logprobs != want.logprobs)
    return float(np.abs(got.logprobs[same] - want.logprobs[same]).max(initial=0))


def _measure(kernel: Implementation, case: Case, given: Given, want: Sampled) -> Measured:
    logits = kernel.load(given.logits, case.dtype)
    got, first = _timed(kernel, logits, given)
    times: list[float] = []
    while len(times) < REPEATS and first + sum(times) < PATIENCE:
        times.append(_timed(kernel, logits, given)[1])
    wrong = differing(given, got, want)
    return Measured(kernel.name, case, len(wrong), logprob_difference(got, want), median(times or [first]) * 1e6)


def _timed(kernel: Implementation, logits: Any, given: Given) -> tuple[Sampled, float]:
    began = perf_counter()
    sampled = kernel.sample(logits, given.mask, given.rows, given.vocab)
    return sampled, perf_counter() - began


def _narrowed(logits: Floats, dtype: str) -> Floats:
    """Numbers that the dtype holds exactly, as float32."""
    if dtype == "float16":
        return logits.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        return (logits.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return logits
