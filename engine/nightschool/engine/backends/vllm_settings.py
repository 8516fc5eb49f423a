"""How vLLM is started: its environment, the options of [models.ALIAS.vllm], and the memory for its KV cache.

vLLM reads its environment on import, so `prepare` comes before that; nothing here imports it. The options are
`tensor_parallel` and `pipeline_parallel` (devices), `executor` (of several: "mp", or "ray", on this machine), `gpu_memory`
(share of the GPU's memory; on a CPU: of the free memory, for the KV cache), `enforce_eager` (no compiled graphs) and
`max_num_seqs` (rows of a batch).
"""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import Field

from nightschool.disk.errors import Problem, nearest
from nightschool.engine import offline, probe
from nightschool.engine.backends.options import BackendOptions, place, read
from nightschool.engine.backends.transformers import SPIN
from nightschool.engine.folders import cache_home
from nightschool.engine.intake import WIDTH
from nightschool.engine.models import ModelSpec
from nightschool.engine.template import read_json

GPU_WIDTH = 256
CPU_SHARE = 0.25
"""Of the free memory, for the KV cache: vLLM takes all of it at once."""
MOST_CPU_CACHE = 16 << 30
LEAST_CPU_CACHE = 256 << 20
LEAST_PASS = 2048
"""Tokens that one pass over prompts may hold, at least."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
ENVIRONMENT = {
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "GOMP_SPINCOUNT": SPIN,
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Logs would go to stdout, which is for data; a forked child would inherit the threads of this process; idle threads would
wait awake for so long that anything else on a CPU slows them down many times."""
STAY_HOME = {name: value for name, value in offline.ENVIRONMENT.items() if name.startswith(("VLLM_", "DO_NOT_"))}


class Options(BackendOptions):
    """[models.ALIAS.vllm]."""

    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    pipeline_parallel: Annotated[int, Field(ge=1)] = 1
    executor: Literal["mp", "ray"] | None = None
    gpu_memory: Annotated[float, Field(gt=0, le=1)] | None = None
    enforce_eager: bool | None = None
    max_num_seqs: Annotated[int, Field(ge=1)] | None = None

    @property
    def devices(self) -> int:
        """How many the model is spread over."""
        return self.tensor_parallel * self.pipeline_parallel


def prepare() -> None:
    """Set what vLLM reads when it is imported."""
    os.environ.update(STAY_HOME)
    for name, value in (ENVIRONMENT | {"VLLM_CACHE_ROOT": str(cache_home() / "vllm")}).items():
        os.environ.setdefault(name, value)
    logging.getLogger("vllm").setLevel(logging.ERROR)  # what it says before it has read its own settings


def read_options(spec: ModelSpec) -> Options:
    """The options of a model's entry; a Problem for one that is unknown, or that this machine lacks something for."""
    options = read(spec, Options, "vllm", "vllm.md")
    if options.executor == "ray" and find_spec("ray") is None:
        raise Problem(f'{place(spec, "vllm")}: executor = "ray" needs ray, which is not installed', "pip install ray")
    if options.executor is not None and options.devices == 1:
        raise Problem(
            f"{place(spec, 'vllm')}: executor runs the parts of a model that is on several devices, and this one is on one",
            "give tensor_parallel or pipeline_parallel, or leave executor out",
        )
    return options


def arguments(spec: ModelSpec, options: Options, width: int | None, *, cpu: bool) -> dict[str, Any]:
    """vLLM's engine arguments for this model."""
    rows = min(found) if (found := [n for n in (width, options.max_num_seqs) if n]) else WIDTH if cpu else GPU_WIDTH
    given: dict[str, Any] = {
        "model": str(spec.folder),
        "tokenizer": str(spec.folder),
        "dtype": _dtype(spec, cpu),
        "max_model_len": spec.context,
        "max_num_seqs": rows,
        "tensor_parallel_size": options.tensor_parallel,
        "pipeline_parallel_size": options.pipeline_parallel,
        "enforce_eager": cpu if options.enforce_eager is None else options.enforce_eager,
        "enable_prefix_caching": True,
        "language_model_only": True,
        "trust_remote_code": False,
        "use_tqdm_on_load": False,
        "disable_log_stats": True,
    }
    if options.devices > 1:
        given["distributed_executor_backend"] = options.executor or "mp"
    if cpu:
        given["kv_cache_memory_bytes"] = cpu_cache(spec, given["dtype"], rows, options.gpu_memory or CPU_SHARE)
        # on a CPU, vLLM 0.32 fails over a prompt that it reads in parts if the reply is drawn with a seed
        given |= {"enable_chunked_prefill": False, "max_num_batched_tokens": max(spec.context, LEAST_PASS)}
    elif options.gpu_memory is not None:
        given["gpu_memory_utilization"] = options.gpu_memory
    return given


def cpu_cache(spec: ModelSpec, dtype: str, rows: int, share: float) -> int:
    """Bytes of the KV cache: what all rows need at most, within this share of the free memory."""
    room = min(int((probe.memory()[1] or 4 << 30) * share), MOST_CPU_CACHE)
    config = read_json(spec.folder / "config.json")
    text = config.get("text_config") or config
    try:
        heads = text.get("num_key_value_heads") or text["num_attention_heads"]
        size = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
        token = 2 * int(text["num_hidden_layers"]) * int(heads) * int(size) * BYTES.get(dtype, 4)
    except (KeyError, TypeError):
        return max(room, LEAST_CPU_CACHE)
    return max(min(room, token * spec.context * rows), LEAST_CPU_CACHE)


def _dtype(spec: ModelSpec, cpu: bool) -> str:
    """`auto`: float32 on a CPU, where narrower types are slower unless measured otherwise; the model's own elsewhere."""
    if spec.dtype == "auto":
        return "float32" if cpu else "auto"
    if spec.dtype not in BYTES:
        raise Problem(f"{spec.alias} has the unknown dtype {spec.dtype!r}", nearest(spec.dtype, BYTES))
    return spec.dtype
