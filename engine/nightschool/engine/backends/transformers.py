"""The transformers backend: any causal language model, on the CPU or a torch device, with a decode loop of its own.

`torch_engine.py` is the engine; `torch_batch.py` computes; `torch_model.py`,
`torch_attention.py` and `torch_kv.py` are the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from nightschool.engine.models import ModelSpec

if TYPE_CHECKING:
    from nightschool.engine.backends.torch_engine import TorchEngine

SPIN = "5000"
"""How long an idle thread of torch waits awake. Its own default is long: while anything else runs on the machine,
two threads are then several times slower than one."""


def load(spec: ModelSpec, *, width: int | None = None, say: Callable[[str], None] | None = None) -> TorchEngine:
    """Load a model from its folder; never from anywhere else. `say` is told when memory runs out (default: the log)."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
    from nightschool.engine.backends import torch_engine

    return torch_engine.open_model(spec, width, say)


def measure_dtype(spec: ModelSpec) -> dict[str, float]:
    """Tokens a second that this machine decodes in each dtype that it has for the model."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
    from nightschool.engine.backends import torch_measure

    return torch_measure.measure_dtype(spec)
