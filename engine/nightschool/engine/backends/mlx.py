"""The MLX backend: Apple silicon, and any other machine that MLX runs on. On mlx-lm's BatchGenerator, unchanged.

`mlx_engine.py` is the engine; `mlx_model.py` loads the model and says what its caches can do; `mlx_rows.py` tells whose
rows a batch holds; `mlx_sampler.py` masks and draws for all of them at once; `mlx_prefix.py` keeps computed prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nightschool.engine.models import ModelSpec

if TYPE_CHECKING:
    from nightschool.engine.backends.mlx_engine import MLXEngine


def load(spec: ModelSpec, *, width: int | None = None, say: Callable[[str], None] | None = None) -> MLXEngine:
    """Load a model from its folder; never from anywhere else. `say` is told when memory runs out (default: the log)."""
    from nightschool.engine.backends import mlx_engine

    return mlx_engine.open_model(spec, width, say)


def measure_width(spec: ModelSpec) -> dict[str, float]:
    """Tokens a second that this machine decodes at each width of the batch."""
    from nightschool.engine.backends import mlx_measure

    return mlx_measure.measure_width(spec)


def cache_path(spec: ModelSpec) -> str:
    """What the model's caches allow, in words; its weights are not read."""
    from nightschool.engine.backends import mlx_model

    return mlx_model.cache_path(spec.folder)
