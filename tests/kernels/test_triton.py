"""The Triton kernel: the contract of all kernels under Triton's interpreter, and its compilation for a CUDA device.

Neither needs CUDA. The interpreter must be chosen before Triton is imported, the compiler must not, so each has a child.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from nightschool.kernels import triton_ops as kernel

parts = {"tokens": "*i32", "scores": "*fp32", "tops": "*fp32", "sums": "*fp32"}
for dtype, words in (("fp32", "*i32"), ("fp16", "*i32"), ("bf16", "constexpr")):
    scan = {"logits": f"*{dtype}", "words": words, "settings": "*i32", **parts, "width": "i32", "vocab": "i32"}
    fixed = {"MASKED": words == "*i32", "BLOCK": kernel.BLOCK} | ({} if words == "*i32" else {"words": None})
    join = {"logits": f"*{dtype}", **parts, "out": "*i32", "width": "i32", "batch": "i32", "blocks": "i32"}
    for function, types, constants in ((kernel._scan, scan, fixed), (kernel._join, join, {"SIZE": 128})):
        signature = types | dict.fromkeys(constants, "constexpr")
        source = ASTSource(function, signature=signature, constexprs=constants)
        options = {"num_warps": kernel.WARPS, "enable_fp_fusion": False}
        ptx = compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
        assert "lg2.approx" not in ptx  # too coarse for noise: it is wrong by more than log(1 - 2**-24)
        print(function.__name__, dtype, words)
"""

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not here")


def child(*arguments: str, interpreted: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1" if interpreted else "0"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HERE.parents[1] / portion) for portion in ("engine", "kernels", "loop")]
        + ([environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else [])
    )
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )


def test_the_contract_holds_under_the_interpreter() -> None:
    ran = child("-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_kernels.py"), interpreted=True)
    assert ran.returncode == 0, ran.stdout[-4000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed
    assert int(passed[1]) > 40
    assert "skipped" not in ran.stdout


def test_it_compiles_for_a_cuda_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    script = tmp_path / "compile_kernel.py"
    script.write_text(COMPILE, "utf-8")
    ran = child(str(script), interpreted=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.count("_scan") == 3
