"""How fast a model decodes on this machine in each dtype, so that the choice is measured and not a habit."""

from __future__ import annotations

import gc
import time

import torch

from nightschool.engine.backends.torch_attention import Plan
from nightschool.engine.backends.torch_engine import DTYPES, pick_device
from nightschool.engine.backends.torch_kv import Group
from nightschool.engine.backends.torch_model import TorchModel, join_states
from nightschool.engine.models import ModelSpec

ROWS = 8
STEPS = 4


def measure_dtype(spec: ModelSpec) -> dict[str, float]:
    """Tokens a second of a small batch, by dtype; the model is loaded anew for each."""
    device = pick_device()
    names = ("float32", "bfloat16") if device.type == "cpu" else ("bfloat16", "float16")
    return {name: round(_speed(TorchModel(spec.alias, spec.folder, DTYPES[name], device)), 1) for name in names}


def _speed(model: TorchModel) -> float:
    group = Group(None)
    for _ in range(ROWS):
        group.add([])
    states = join_states([model.no_states()] * ROWS)
    ids = torch.ones(ROWS, 1, dtype=torch.long, device=model.device)
    times = []
    with torch.inference_mode():
        for step in range(STEPS + 1):
            began = time.perf_counter()
            model.forward(ids, torch.full_like(ids, step), Plan(groups=[group]), states, [0]).cpu()
            times.append(time.perf_counter() - began)
    model.release()
    gc.collect()
    return ROWS / min(times[1:])
