"""Which kernel runs on a device, and why. Loads only the library that the choice needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nightschool.disk.errors import Problem, nearest
from nightschool.kernels.reference import Rows, Sampled

Sampler = Callable[[Any, Any, Rows, int], Sampled]

DEVICES = ("cpu", "cuda", "mps", "numpy")


def choose(device: str) -> tuple[Sampler, str]:
    """The sampler for `device` ("cpu", "cuda:0", ...) and one sentence why."""
    kind = device.partition(":")[0]
    if kind == "numpy":
        from nightschool.kernels import reference

        return reference.sample, "NumPy reference: no accelerator library asked for"
    if kind in DEVICES:
        from nightschool.kernels import torch_ops

        return torch_ops.sample, f"torch operations: they run on any torch device ({kind})"
    raise Problem(f"no sampling kernel for the device {device!r}", nearest(kind, DEVICES))
