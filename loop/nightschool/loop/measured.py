"""What is chosen by measuring is measured once a workspace and model, kept in config.json with its figures, and reused.

So a timing never changes a result when a night is resumed. Today that is the dtype of a model whose entry says `auto`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nightschool.engine.models import ModelSpec
from nightschool.loop.workspace import Workspace

Measure = Callable[[ModelSpec], Mapping[str, float]]
"""Tokens a second by dtype; empty where the backend has nothing to choose."""


def settled(space: Workspace, spec: ModelSpec, measure: Measure) -> ModelSpec:
    """The model with its dtype settled: as its entry says, as measured before, or measured now."""
    if spec.dtype != "auto":
        return spec
    config, key = space.config(), f"{spec.alias}/{spec.backend}"
    known = config.measured.get(key)
    if known is None:
        figures = dict(measure(spec))
        if not figures:
            return spec
        known = {"dtype": max(figures, key=lambda name: figures[name]), "tokens_per_second": figures}
        space.save(replace(config, measured={**config.measured, key: known}))
    return replace(spec, dtype=known["dtype"])
