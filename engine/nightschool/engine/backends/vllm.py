"""The vLLM backend: NVIDIA GPUs, and any CPU that vLLM is built for. vLLM unchanged, driven by its own add_request/step.

`vllm_engine.py` is the engine; `vllm_settings.py` reads [models.ALIAS.vllm] and says how vLLM is started, `vllm_core.py`
starts and ends it; `vllm_grammar.py` is what runs beside vLLM's scheduler: masks and budgets of the replies. One model on
one device runs inside this process, with no child; a model on several devices, or a second model beside a first, has
vLLM's own processes. Two models take turns by being closed and opened: vLLM's sleep and wake-up, which would keep the
weights of the idle one in the machine's memory, exist on CUDA only and are not used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from nightschool.engine.models import ModelSpec

if TYPE_CHECKING:
    from nightschool.engine.backends.vllm_engine import VLLMEngine


def load(spec: ModelSpec, *, width: int | None = None, say: Callable[[str], None] | None = None) -> VLLMEngine:
    """Load a model from its folder; never from anywhere else. `say` is told what a person should know."""
    from nightschool.engine.backends import vllm_settings

    vllm_settings.prepare()
    with warnings.catch_warnings(action="ignore"):  # libraries that complain of each other
        from nightschool.engine.backends import vllm_engine

    return vllm_engine.open_model(spec, width, say)
