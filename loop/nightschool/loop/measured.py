"""What is chosen by measuring is measured once a workspace and model, kept in config.json with its figures, and reused.

So a timing never changes a result when a night is resumed. That is the dtype of a model whose entry says `auto`, and the
width of a batch where more rows may be slower, each on the backends that have the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nightschool.engine.models import ModelSpec
from nightschool.loop.workspace import Workspace

Measure = Callable[[ModelSpec, str], Mapping[str, float]]
"""(model, "dtype" or "width") -> tokens a second by each; empty where the backend has nothing to choose."""


def settled(space: Workspace, spec: ModelSpec, measure: Measure) -> tuple[ModelSpec, int | None]:
    """The model with its dtype settled, and the width of its batch: as measured before, or now; None: not measured."""
    if spec.dtype == "auto" and (dtype := _best(space, spec, "dtype", measure)) is not None:
        spec = replace(spec, dtype=dtype)
    width = _best(space, spec, "width", measure)
    return spec, None if width is None else int(width)


def _best(space: Workspace, spec: ModelSpec, what: str, measure: Measure) -> str | None:
    """The fastest choice: as config.json has it, or measured and kept there."""
    config = space.config()
    key = f"{spec.alias}/{spec.backend}" if what == "dtype" else f"{spec.alias}/{spec.backend}/{what}"
    known = config.measured.get(key)
    if known is None:
        figures = dict(measure(spec, what))
        if not figures:
            return None
        known = {what: max(figures, key=lambda name: figures[name]), "tokens_per_second": figures}
        space.save(replace(config, measured={**config.measured, key: known}))
    return str(known[what])
