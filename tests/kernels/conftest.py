"""All implementations of the kernel that this machine can run, as one fixture.

The Metal kernel runs as C++ (metal_shim.h), behind `metal.py` as it is. Triton's needs its interpreter, which must be
chosen before Triton is imported: test_triton.py runs the tests of `sample` again in a child that does.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
import torch

from nightschool.kernels import metal, mlx_ops, reference, torch_ops
from nightschool.kernels.reference import Rows, Sampled

Logits: TypeAlias = npt.NDArray[np.float32]
Sample: TypeAlias = Callable[..., Sampled]
"""(float32 logits, mask, rows, vocab, dtype="float32") -> Sampled; the dtype is what the kernel is given them in."""
Pack: TypeAlias = Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.int32]]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NAMES = ("triton",) if INTERPRETED else ("reference", "torch", "mlx", "mlx, mask on the device", "metal")
SHIM = Path(__file__).with_name("metal_shim.h")
TYPES = {mx.float32: "float", mx.float16: "half", mx.bfloat16: "bfloat16_t"}
ENTRY = """
extern "C" void {name}(int threads, const void* logits, const int* logits_shape, const int* mask,
                       const uint* settings, int vocab, int* ids, float* logprobs) {{
    dispatch(logits_shape[0], threads, [=] {{
        sample<{arguments}>((const {type}*)logits, logits_shape, mask, settings, vocab, ids, logprobs);
    }});
}}
"""


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> Sample:
    """One implementation after the other."""
    if request.param == "metal":
        request.getfixturevalue("metal_on_cpu")
    samplers: dict[str, Sample] = {
        "reference": _reference,
        "torch": _torch,
        "triton": _triton,
        "mlx": _mlx(mlx_ops.draw, lambda mask: mask),
        "mlx, mask on the device": _mlx(mlx_ops.draw, mx.array),
        "metal": _mlx(metal.draw, lambda mask: mask),
    }
    return samplers[request.param]


@pytest.fixture
def many(request: pytest.FixtureRequest) -> int:
    """Rows enough for a statistic; fewer where each is slow."""
    return {"triton": 150, "metal": 500}.get(request.node.callspec.params["sample"], 4000)


@pytest.fixture(scope="session")
def pack() -> Pack:
    """Booleans (B, V) as packed words."""

    def packed(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        padded = np.zeros((len(allowed), -(-allowed.shape[1] // 32) * 32), bool)
        padded[:, : allowed.shape[1]] = allowed
        return np.packbits(padded, axis=1, bitorder="little").view("<i4").astype(np.int32)

    return packed


@pytest.fixture
def metal_on_cpu(_metal_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """`metal.py` calls its kernel compiled as C++."""
    kernel = CompiledKernel(_metal_library)
    monkeypatch.setattr(metal, "kernel", lambda: kernel)


@pytest.fixture(scope="session")
def _metal_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not here to compile the Metal kernel as C++")
    folder = tmp_path_factory.mktemp("metal")
    (folder / "sample.cpp").write_text(_as_cpp(), "utf-8")
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-I", str(SHIM.parent), "-o", "sample.so"]
    subprocess.run([*command, "sample.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "sample.so"))


def _as_cpp() -> str:
    """The kernel with the signature that MLX would write, and an entry for each of its variants."""
    header, body = metal.source()
    signature = """template <typename T, bool MASKED, bool NORMALISED>
    void sample(const device T* logits, const constant int* logits_shape, const device int* mask,
                const device uint* settings, const constant int& vocab, device int* ids, device float* logprobs)"""
    entries = [
        ENTRY.format(
            name=_name(kind, masked, normalised),
            type=kind,
            arguments=f"{kind}, {str(masked).lower()}, {str(normalised).lower()}",
        )
        for kind in TYPES.values()
        for masked in (False, True)
        for normalised in (False, True)
    ]
    return f'#include "{SHIM.name}"\n{header}\n{signature} {{\n{body}\n}}\n{"".join(entries)}'


def _name(kind: str, masked: bool, normalised: bool) -> str:
    return f"sample_{kind}_{masked:d}{normalised:d}"


class CompiledKernel:
    """Called as MLX's kernel objects are; a group is two simdgroups, enough for what passes between them."""

    threads = 64

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        template: Sequence[tuple[str, Any]],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        output_shapes: Sequence[tuple[int, ...]],
        output_dtypes: Sequence[Any],
    ) -> list[Any]:
        logits, mask, settings, vocab = inputs
        chosen = dict(template)
        assert grid == (threadgroup[0], logits.shape[0], 1)
        assert threadgroup == (metal.THREADS, 1, 1)
        assert (mask.dtype, settings.dtype, vocab.dtype) == (mx.int32, mx.uint32, mx.int32)
        assert list(output_dtypes) == [mx.int32, mx.float32]
        raw = np.array(logits if logits.dtype == mx.float32 else logits.view(mx.uint16))
        shape = np.array(raw.shape, np.int32)
        ids, logprobs = np.zeros(output_shapes[0], np.int32), np.zeros(output_shapes[1], np.float32)
        entry = self._library[_name(TYPES[chosen["T"]], chosen["MASKED"], chosen["NORMALISED"])]
        arrays = [raw, shape, np.array(mask), np.array(settings), ids, logprobs]
        at = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
        entry(self.threads, *at[:4], vocab.item(), *at[4:])
        return [mx.array(ids), mx.array(logprobs)]


def _reference(logits: Logits, mask: Any, rows: Rows, vocab: int, dtype: str = "float32") -> Sampled:
    narrowed = torch.from_numpy(logits).to(getattr(torch, dtype)).float().numpy()
    return reference.sample(narrowed, mask, rows, vocab)


def _torch(logits: Logits, mask: Any, rows: Rows, vocab: int, dtype: str = "float32") -> Sampled:
    return torch_ops.sample(torch.from_numpy(logits).to(getattr(torch, dtype)), mask, rows, vocab)


def _triton(logits: Logits, mask: Any, rows: Rows, vocab: int, dtype: str = "float32") -> Sampled:
    from nightschool.kernels import triton_ops

    return triton_ops.sample(torch.from_numpy(logits).to(getattr(torch, dtype)), mask, rows, vocab)


def _mlx(draw: Callable[..., Any], carry: Callable[[Any], Any]) -> Sample:
    def sampled(logits: Logits, mask: Any, rows: Rows, vocab: int, dtype: str = "float32") -> Sampled:
        given = mx.array(logits).astype(getattr(mx, dtype))
        return mlx_ops.evaluated(*draw(given, None if mask is None else carry(mask), rows, vocab))

    return sampled
