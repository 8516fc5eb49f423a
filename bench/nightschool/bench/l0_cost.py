"""Bytes of keys and values that a token of standing text takes, as the model's own config.json tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightschool.engine.models import ModelSpec

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def kv_bytes(spec: ModelSpec) -> int | None:
    """Bytes of keys and values that one token takes; None where the model's files or its dtype do not tell."""
    from nightschool.engine.template import read_json

    config = read_json(spec.folder / "config.json")
    config = config.get("text_config") or config
    try:
        return _attending(config) * 2 * _heads(config) * _size(config) * BYTES[spec.dtype]
    except (KeyError, TypeError):
        return None


def _attending(config: Mapping[str, Any]) -> int:
    """Layers that keep every token; the others' states do not grow."""
    kinds = config.get("layer_types")
    return sum("attention" in kind and "linear" not in kind for kind in kinds) if kinds else config["num_hidden_layers"]


def _heads(config: Mapping[str, Any]) -> int:
    return int(config.get("num_key_value_heads") or config["num_attention_heads"])


def _size(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
