"""All kernels but the specification, whether this machine can run each, and if not, why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from nightschool.kernels.reference import Floats, Sampled


def _cannot(*_: Any) -> Any:
    raise RuntimeError("this kernel cannot run here")


@dataclass(frozen=True, slots=True)
class Implementation:
    """A kernel on a device; `load` puts float32 logits there in a dtype."""

    name: str
    device: str
    missing: str | None
    load: Callable[[Floats, str], Any] = _cannot
    sample: Callable[..., Sampled] = _cannot


def implementations() -> Iterator[Implementation]:
    """One after the other; a library is loaded when its turn comes."""
    yield from _on_torch()
    yield from _on_mlx()


def _on_torch() -> Iterator[Implementation]:
    if find_spec("torch") is None:
        yield Implementation("torch", "cpu", "torch is not installed")
        yield Implementation("triton", "cuda", "torch is not installed")
        return
    import torch

    from nightschool.kernels import torch_ops

    def load(device: str) -> Callable[[Floats, str], Any]:
        return lambda logits, dtype: torch.from_numpy(logits).to(device, getattr(torch, dtype))

    yield Implementation("torch", "cpu", None, load("cpu"), torch_ops.sample)
    if torch.backends.mps.is_available():
        yield Implementation("torch on mps", "mps", None, load("mps"), torch_ops.sample)
    if not torch.cuda.is_available():
        yield Implementation("triton", "cuda", "no CUDA device that torch can use")
        return
    yield Implementation("torch on cuda", "cuda", None, load("cuda"), torch_ops.sample)
    if find_spec("triton") is None:
        yield Implementation("triton", "cuda", "triton is not installed")
        return
    from nightschool.kernels import triton_ops

    yield Implementation("triton", "cuda", None, load("cuda"), triton_ops.sample)


def _on_mlx() -> Iterator[Implementation]:
    if find_spec("mlx") is None:
        yield Implementation("mlx", "cpu", "mlx is not installed")
        yield Implementation("metal", "gpu", "mlx is not installed")
        return
    import mlx.core as mx

    from nightschool.kernels import metal, mlx_ops

    def load(logits: Floats, dtype: str) -> Any:
        loaded = mx.array(logits).astype(getattr(mx, dtype))
        mx.eval(loaded)
        return loaded

    gpu = bool(mx.metal.is_available())
    yield Implementation("mlx", "gpu" if gpu else "cpu", None, load, mlx_ops.sample)
    system = "the Apple GPU of this machine is out of reach" if sys.platform == "darwin" else "only on a Mac"
    yield Implementation("metal", "gpu", None if gpu else system, load, metal.sample)
