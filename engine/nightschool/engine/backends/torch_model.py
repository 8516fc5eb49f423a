"""A transformers model as a function: tokens, positions and a plan in, logits out.

Loaded from its folder alone. Attention layers keep nothing themselves (`torch_attention.py` does); layers with a
running state (linear attention, convolutions) keep it in `States`, one batch row each.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import Cache, CacheLayerMixin, LinearAttentionLayer
from transformers.utils import logging as transformers_logging

from nightschool.disk.errors import Problem
from nightschool.engine.backends.torch_attention import NAME, New, Plan, attention

PLAIN = {"full_attention", "sliding_attention"}
STATEFUL = {"linear_attention", "conv"}
STRANGE = {"attn_logit_softcapping": "soft-capped attention scores", "sinks": "attention sinks"}
"""Attributes of attention modules, as transformers names them, whose values attention must not ignore."""

AttentionInterface.register(NAME, attention)

States = tuple[LinearAttentionLayer, ...]
"""The running states of a model's stateful layers, for one or more rows."""


class _Handover(CacheLayerMixin):
    """An attention layer's place in the cache: hands new keys and values, with the plan, on to attention."""

    is_sliding = False
    is_compileable = False

    def __init__(self, plan: Plan, layer: int) -> None:
        self.plan = plan
        self.layer = layer
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None: ...

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[New, None]:
        return New(self.plan, self.layer, keys, values), None

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return 0, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length


class TorchModel:
    """Weights on a device."""

    def __init__(self, alias: str, folder: Path, dtype: torch.dtype, device: torch.device) -> None:
        """Raises Problem for a model that this backend cannot run."""
        transformers_logging.disable_progress_bar()
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        text = config.get_text_config()
        types = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
        strange = [f"{kind} layers" for kind in sorted(set(types) - PLAIN - STATEFUL)] or _strange_attention(config)
        if strange:
            raise Problem(
                f"the transformers backend cannot run {alias}: it has {', '.join(strange)}",
                "choose another model, or another backend with --backend",
            )
        self.types: list[str] = list(types)
        self.stateful = any(kind in STATEFUL for kind in types)
        self.device, self.dtype = device, dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, dtype=dtype, attn_implementation=NAME
            )
        self.model.eval().requires_grad_(False)
        self.model.to(device)
        if device.type == "cpu":
            _lay_out(self.model)
        names = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._config = text

    @property
    def token_bytes(self) -> int:
        """Bytes of keys and values that one token of one row takes."""
        heads = getattr(self._config, "num_key_value_heads", None) or self._config.num_attention_heads
        size = getattr(self._config, "head_dim", None) or self._config.hidden_size // self._config.num_attention_heads
        layers = sum(kind in PLAIN for kind in self.types)
        return int(layers * 2 * heads * size * self.dtype.itemsize)

    def no_states(self) -> States:
        """The states of a row that has not begun."""
        return tuple(LinearAttentionLayer() for kind in self.types if kind in STATEFUL)

    def release(self) -> None:
        """Free the weights."""
        del self.model

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, plan: Plan, states: States, last: Sequence[int]
    ) -> torch.Tensor:
        """Logits at the offsets `last` of each row of `ids` (batch, tokens), as (batch * len(last), V).

        To be called in inference mode.
        """
        layers: list[Any] = []
        stateful = iter(states)
        attending = 0
        for kind in self.types:
            if kind in STATEFUL:
                layers.append(next(stateful))
            else:
                layers.append(_Handover(plan, attending))
                attending += 1
        where = torch.tensor(last, dtype=torch.long, device=self.device)
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=where,
            **{self._cache_name: Cache(layers=layers)},
        )
        plan.advance()
        logits: torch.Tensor = output.logits.flatten(0, 1)
        return logits


def join_states(rows: Sequence[States]) -> States:
    """The states of several rows as those of one batch."""
    return tuple(_combine(layers, lambda parts: torch.cat(parts)) for layers in zip(*rows, strict=True))


def pick_states(states: States, rows: Sequence[int]) -> States:
    """A copy of the states of some rows."""
    return tuple(_combine([layer], lambda parts: parts[0][list(rows)].clone()) for layer in states)


def state_bytes(states: States) -> int:
    """Bytes of all tensors in states."""
    return sum(
        tensor.nbytes
        for layer in states
        for kind in ("conv_states", "recurrent_states")
        for tensor in _tensors(getattr(layer, kind))
    )


def _strange_attention(config: Any) -> list[str]:
    """What the attention of this model does that ours does not, found on a model without memory behind it."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        modules = list(AutoModelForCausalLM.from_config(config, attn_implementation=NAME).modules())
    return sorted(
        {said for module in modules for name, said in STRANGE.items() if getattr(module, name, None) is not None}
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    found = value.values() if isinstance(value, dict) else [value]
    return [tensor for tensor in found if tensor is not None]


def _combine(
    layers: Sequence[LinearAttentionLayer], function: Callable[[list[torch.Tensor]], torch.Tensor]
) -> LinearAttentionLayer:
    """A layer like the first, each state made from those of all layers."""
    made = copy.copy(layers[0])
    for name, value in vars(layers[0]).items():
        if isinstance(value, dict):
            parts = {key: [getattr(layer, name)[key] for layer in layers] for key in value}
            made.__dict__[name] = {
                key: function(part) if isinstance(part[0], torch.Tensor) else part[0] for key, part in parts.items()
            }
        elif isinstance(value, torch.Tensor):
            made.__dict__[name] = function([getattr(layer, name) for layer in layers])
    return made


def _lay_out(model: torch.nn.Module) -> None:
    """Keep linear weights transposed in memory: for small batches the CPU multiplies them about twice as fast."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            data = module.weight.data.t().contiguous().t()
            module.weight = torch.nn.Parameter(data, requires_grad=False)
