"""What this machine has (memory, an accelerator, power; `None` where it cannot be told) and what it can take.

How each figure is read is `probe.py`; which backend fits is `select.py`. torch is never imported.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from nightschool.engine.models import Models

GB = 1_000_000_000
OVERHEAD = 1.25
"""Weights, and the least that a batch needs beside them."""
CPU_WEIGHTS_GB = 2.5
"""A CPU reads all weights for every token: larger models load, but a night would be over before they are."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A GPU that a backend can use; memory in bytes."""

    kind: Literal["apple", "cuda"]
    name: str
    memory_total: int | None
    memory_free: int | None


@dataclass(frozen=True, slots=True)
class Power:
    """Watts that the accelerator draws; the battery's charge in 0..1; whether mains is plugged in."""

    watts: float | None = None
    battery: float | None = None
    plugged: bool | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """This machine; memory in bytes."""

    system: str
    machine: str
    cores: int
    memory_total: int | None
    memory_free: int | None
    accelerator: Accelerator | None
    power: Power

    def for_models(self) -> int | None:
        """Bytes that a model and its batch may take here."""
        if self.accelerator is not None:
            return self.accelerator.memory_total
        return self.memory_total

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def this_device() -> Device:
    """Look at this machine."""
    from nightschool.engine import probe

    total, free = probe.memory()
    accelerator, watts = probe.accelerator(total, free)
    battery, plugged = probe.battery()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    power = Power(watts, battery, plugged)
    return Device(platform.system(), platform.machine(), cores, total, free, accelerator, power)


def fits_beside(one_gb: float, other_gb: float) -> bool:
    """Whether two models and a batch for each fit into this machine's memory together; not when it cannot be told."""
    room = this_device().for_models()
    return room is not None and (one_gb + other_gb) * GB * OVERHEAD <= room


def fits(weights_gb: float | None, device: Device) -> bool | None:
    """Whether a model of these weights runs well on the device; `None`: it cannot be told."""
    room = device.for_models()
    if weights_gb is None or room is None:
        return None
    if device.accelerator is None and weights_gb > CPU_WEIGHTS_GB:
        return False
    return weights_gb * OVERHEAD * GB <= room


def largest_alias_that_fits(models: Models, device: Device, backend: str | None = None) -> str | None:
    """The alias of the largest model that runs well on the device, as `backend` would load it.

    Size is that of the entry itself, not of a backend's quantised copy: more parameters win.
    """
    able = [
        (models.entries[spec.alias][0].get("weights_gb", spec.weights_gb), spec.alias)
        for spec in models.available(backend)
        if fits(spec.weights_gb, device)
    ]
    return max(able)[1] if able else None
