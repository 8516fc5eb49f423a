"""The openai backend: a model on a server that speaks the OpenAI protocol, as a rule on this machine.

vLLM, llama.cpp, Ollama, LM Studio, mlx_lm.server and their kin; docs/servers.md says how each is started and what it can
do. `openai_options.py` reads [models.ALIAS.openai]; `openai_line.py` and `openai_wire.py` carry one call; `openai_server.py`
asks what the server is, `openai_count.py` counts its tokens, `openai_probe.py` finds out how it takes grammars;
`openai_body.py` and `openai_talk.py` make a request, judge its reply and ask again; `openai_engine.py` runs many at once.
Nothing is imported but the standard library: a server needs no package here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nightschool.engine.models import ModelSpec

if TYPE_CHECKING:
    from nightschool.engine.backends.openai_engine import OpenAIEngine


def load(spec: ModelSpec, *, width: int | None = None, say: Callable[[str], None] | None = None) -> OpenAIEngine:
    """Meet the server, and try how it takes grammars. `say` is told which way was chosen (default: the log)."""
    from nightschool.engine.backends import openai_engine

    return openai_engine.open_server(spec, width, say)
