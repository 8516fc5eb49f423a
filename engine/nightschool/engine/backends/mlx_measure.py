"""How many tokens a second a model decodes at each width of the batch: more rows are not always faster."""

from __future__ import annotations

import time

import mlx.core as mx

from nightschool.engine.backends.mlx_model import MLXModel, room
from nightschool.engine.intake import WIDTH
from nightschool.engine.models import ModelSpec

WIDTHS = tuple(2**power for power in range(WIDTH.bit_length()))
STEPS = 6
LENGTH = 512
"""Tokens that a row takes, so that a width that would not fit is not tried."""


def measure_width(spec: ModelSpec) -> dict[str, float]:
    """Tokens a second by width, of the widths that fit in memory; one row only where batches are impossible."""
    model = MLXModel(spec)
    need = model.cost.row + LENGTH * model.cost.token
    widths = [width for width in WIDTHS if width == 1 or (model.kind != "single" and width * need <= room())]
    speeds = {str(width): round(_speed(model, width), 1) for width in widths}
    model.release()
    return speeds


def _speed(model: MLXModel, width: int) -> float:
    rows = [model.caches() for _ in range(width)]
    caches = rows[0] if width == 1 else [layer[0].merge(list(layer)) for layer in zip(*rows, strict=True)]
    times = []
    for _ in range(STEPS + 1):
        began = time.perf_counter()
        mx.eval(model.net(mx.ones((width, 1), mx.int32), cache=caches))
        times.append(time.perf_counter() - began)
    return width / min(times[1:])
