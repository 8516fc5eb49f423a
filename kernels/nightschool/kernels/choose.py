"""Which kernel runs on a device, and why. Loads only the library that the choice needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nightschool.disk.errors import Problem, nearest

Kernel = Callable[..., Any]
"""`sample` of a module of this package; for the devices of MLX `draw`, which does not wait."""

DEVICES = ("cpu", "cuda", "mps", "numpy", "mlx-cpu", "mlx-gpu")


def choose(device: str) -> tuple[Kernel, str]:
    """The kernel for `device` ("cpu", "cuda:0", "mlx-gpu", ...) and one sentence why."""
    kind = device.partition(":")[0]
    if kind not in DEVICES:
        raise Problem(f"no sampling kernel for the device {device!r}", nearest(kind, DEVICES))
    if kind == "numpy":
        from nightschool.kernels import reference

        return reference.sample, "NumPy reference: no accelerator library asked for"
    if kind.startswith("mlx-"):
        return _mlx(gpu=kind == "mlx-gpu")
    return _triton() if kind == "cuda" else _torch(f"they run on any torch device ({kind})")


def _mlx(gpu: bool) -> tuple[Kernel, str]:
    import mlx.core as mx

    if gpu and mx.metal.is_available():
        from nightschool.kernels import metal

        return metal.draw, "Metal: one fused kernel on the Apple GPU"
    from nightschool.kernels import mlx_ops

    return mlx_ops.draw, "MLX operations: they run on any MLX device, and Metal's kernel needs an Apple GPU"


def _torch(reason: str) -> tuple[Kernel, str]:
    from nightschool.kernels import torch_ops

    return torch_ops.sample, f"torch operations: {reason}"


def _triton() -> tuple[Kernel, str]:
    try:
        from nightschool.kernels import triton_ops
    except ImportError:
        return _torch("Triton, whose fused kernel is for CUDA, is not installed")
    return triton_ops.sample, "Triton: one fused kernel on CUDA"
