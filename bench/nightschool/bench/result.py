"""What a measurement is: one record, the same for every bench, and how it is kept.

A record names what was measured, on what, with what settings, and holds every raw sample; whatever a person reads (a table,
a plot, a verdict) is made from it by `render` and `compare`. What is unknown is null. Records lie in the user's state
folder, `nightschool/bench/`, one JSON file each, `YYYYMMDDTHHMMSSZ-BENCH-XXXX.json`, with `schema`; nothing rewrites them.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import statistics
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from nightschool.disk.errors import Problem
from nightschool.disk.files import write_atomic

SCHEMA = 1
LIBRARIES = ("nightschool", "torch", "transformers", "mlx", "mlx-lm", "vllm", "llguidance", "outlines", "numpy")
"""Whose versions may move a figure."""

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured. Memory in bytes; `load` is the one-minute load average a core when the bench began."""

    system: str
    cpu: str
    cores: int
    memory: int | None
    accelerator: str | None
    load: float | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Model:
    """What was measured: alias, hash of its weights, dtype and backend; None where there is no such thing."""

    alias: str
    sha256: str | None
    dtype: str | None
    backend: str | None


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure: its name (`pp512`), what it depends on (`batch`), and its raw samples; no sample: it could not be had."""

    name: str
    unit: str
    samples: tuple[float, ...]
    better: Literal["higher", "lower", "neither"] = "lower"
    params: Mapping[str, Value] = field(default_factory=dict)
    note: str = ""

    @property
    def key(self) -> tuple[str, str, tuple[tuple[str, Value], ...]]:
        """What makes two measures the same figure."""
        return self.name, self.unit, tuple(sorted(self.params.items()))

    @property
    def mean(self) -> float | None:
        """The mean of the samples, None without any."""
        return statistics.fmean(self.samples) if self.samples else None

    @property
    def median(self) -> float | None:
        """The median of the samples, None without any."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def spread(self) -> float | None:
        """The standard deviation of the samples, None below two."""
        return statistics.stdev(self.samples) if len(self.samples) > 1 else None


@dataclass(frozen=True, slots=True)
class Record:
    """One run of one bench. `settings` are what the user chose; `notes` what a reader should know."""

    bench: str
    at: str
    machine: Machine
    commit: str | None
    model: Model | None
    settings: Mapping[str, Value]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    def find(self, name: str, **params: Value) -> Measure | None:
        """The measure of that name whose parameters include these."""
        for one in self.measures:
            if one.name == name and params.items() <= dict(one.params).items():
                return one
        return None

    def as_json(self) -> dict[str, Any]:
        """The record as it is written."""
        return asdict(self)


def record(
    bench: str,
    measures: Iterable[Measure],
    *,
    model: Model | None = None,
    settings: Mapping[str, Value] | None = None,
    notes: Iterable[str] = (),
    machine: Machine | None = None,
) -> Record:
    """A record of now and here; pass the `machine` that was noted before the work began, for its load."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Record(
        bench, at, machine or this_machine(), commit(), model, dict(settings or {}), tuple(measures), tuple(notes)
    )


def this_machine() -> Machine:
    """What this machine is, and how busy it is at this moment."""
    from nightschool.engine.device import this_device

    device = this_device()
    cores = device.cores
    load = round(os.getloadavg()[0] / cores, 2) if hasattr(os, "getloadavg") else None
    accelerator = device.accelerator.name if device.accelerator else None
    system = f"{device.system} {platform.release()} {device.machine}, Python {platform.python_version()}"
    return Machine(system, _cpu(), cores, device.memory_total, accelerator, load, _versions())


def commit() -> str | None:
    """The commit of the clone that this code lies in; None in an installed package."""
    here = Path(__file__).parent
    try:
        ran = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip() or None


def state_folder() -> Path:
    """Where records are kept: $XDG_STATE_HOME, else ~/Library/Application Support on a Mac and ~/.local/state elsewhere."""
    if base := os.environ.get("XDG_STATE_HOME"):
        root = Path(base)
    elif platform.system() == "Darwin":
        root = Path.home() / "Library/Application Support"
    else:
        root = Path.home() / ".local/state"
    return root / "nightschool" / "bench"


def save(what: Record, folder: Path | None = None) -> Path:
    """Keep a record; returns its file."""
    folder = folder or state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    stamp = what.at.replace("-", "").replace(":", "")
    path = folder / f"{stamp}-{what.bench}-{secrets.token_hex(2)}.json"
    write_atomic(path, json.dumps(what.as_json(), indent=1, ensure_ascii=False) + "\n")
    return path


def load(path: Path) -> Record:
    """Read a record; a Problem says what is wrong with the file."""
    try:
        raw = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise Problem(f"{path} is not there", "nightschool bench history lists the records") from None
    except (OSError, ValueError) as error:
        raise Problem(f"{path} is no bench record: {error}", "nightschool bench history lists the records") from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise Problem(f"{path} is no bench record of schema {SCHEMA}", "nightschool bench history lists the records")
    try:
        measures = tuple(Measure(**{**one, "samples": tuple(one["samples"])}) for one in raw["measures"])
        model = Model(**raw["model"]) if raw["model"] else None
        rest = {
            "machine": Machine(**raw["machine"]),
            "model": model,
            "measures": measures,
            "notes": tuple(raw["notes"]),
        }
        return Record(**{**raw, **rest})
    except (KeyError, TypeError) as error:
        raise Problem(f"{path} is a torn bench record: {error}", "measure again") from None


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    """The processor's own name where the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    if platform.system() == "Darwin":
        told = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if told.stdout.strip():
            return told.stdout.strip()
    return platform.processor() or platform.machine()
