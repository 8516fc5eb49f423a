"""A GGUF file -> a folder that transformers, mlx-lm and vLLM load, without torch.

Weights are dequantised to float32, the exact value of every quantised block. Only the llama architecture is
known: whatever else the file holds is refused, since a tensor or a setting left out would make a model that
is wrong in silence. The tokenizer is `gguf_tokenizer.py`; fetching and checking the file is `fetch.py`.

Written: model.safetensors, config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
chat_template.jinja (if the file has a chat template).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.engine.gguf_tokenizer import special_tokens, tokenizer_json

Report = Callable[[int, int], None]
"""Called with tensors done and tensors in all."""

OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
INNER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ADVICE = "use a model that is published as safetensors"


def convert(file: Path, folder: Path, report: Report = lambda done, total: None) -> None:
    """Write the model of a GGUF file into `folder`, which must exist."""
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
    except (ValueError, IndexError, OSError) as error:
        raise Problem(f"{file.name} cannot be read as GGUF: {error}", ADVICE) from None
    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = model_config(fields, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    _write_weights(reader.tensors, config, folder / "model.safetensors", report)
    _write_json(folder / "config.json", config)
    ids = {key: value for key, value in config.items() if key.endswith("_token_id")}
    _write_json(folder / "generation_config.json", {"_from_model_config": True, **ids})
    (folder / "tokenizer.json").write_text(tokenizer_json(fields), encoding="utf-8")
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(fields, config))
    if template := fields.get("tokenizer.chat_template"):
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def model_config(fields: Mapping[str, Any], tied: bool) -> dict[str, Any]:
    """config.json of a llama, from the file's fields."""
    if (kind := fields.get("general.architecture")) != "llama":
        raise Problem(f"a GGUF file of the architecture {kind!r} cannot be converted", ADVICE)
    scaling = [name for name in fields if name.startswith("llama.rope.scaling")]
    if scaling or "llama.expert_count" in fields:
        raise Problem("this GGUF file scales its rope or has experts, which is not known here", ADVICE)

    def setting(name: str) -> Any:
        if f"llama.{name}" not in fields:
            raise Problem(f"the GGUF file has no llama.{name}", ADVICE)
        return fields[f"llama.{name}"]

    heads = setting("attention.head_count")
    theta = float(fields.get("llama.rope.freq_base", 10000.0))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": setting("embedding_length"),
        "intermediate_size": setting("feed_forward_length"),
        "num_hidden_layers": setting("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "head_dim": fields.get("llama.rope.dimension_count", setting("embedding_length") // heads),
        "max_position_embeddings": setting("context_length"),
        # float32 in the file: seven digits give back the number that was meant
        "rms_norm_eps": float(f"{setting('attention.layer_norm_rms_epsilon'):.7g}"),
        # mlx-lm and vLLM read the first form, transformers 5 the second
        "rope_theta": theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "use_cache": True,
        "dtype": "float32",
        "torch_dtype": "float32",
        **{f"{role}_token_id": index for role, index in special_tokens(fields).items() if role != "unk"},
    }


def hf_name(name: str) -> str:
    """The tensor's name in transformers."""
    stem, _, kind = name.rpartition(".")
    if kind == "weight":
        if stem in OUTER:
            return f"{OUTER[stem]}.weight"
        block = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
        if block and block[2] in INNER:
            return f"model.layers.{block[1]}.{INNER[block[2]]}.weight"
    raise Problem(f"the GGUF file has a tensor that no llama has: {name}", ADVICE)


def unpermute(weights: Any, heads: int) -> Any:
    """Undo llama.cpp's order of the rows of q and k: a rotary pair side by side, not half a head apart."""
    rows = weights.reshape(heads, weights.shape[0] // heads // 2, 2, *weights.shape[1:])
    return rows.swapaxes(1, 2).reshape(weights.shape)


def _write_weights(tensors: Any, config: Mapping[str, Any], path: Path, report: Report) -> None:
    import numpy as np
    from gguf.quants import dequantize
    from safetensors.numpy import save_file

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for done, tensor in enumerate(tensors):
        report(done, len(tensors))
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        part = tensor.name.split(".")[-2]
        values = unpermute(values, heads[part]) if part in heads else values
        weights[hf_name(tensor.name)] = np.ascontiguousarray(values)
    save_file(weights, path, metadata={"format": "pt"})
    report(len(tensors), len(tensors))


def _tokenizer_config(fields: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    tokens = fields["tokenizer.ggml.tokens"]
    names = {f"{role}_token": tokens[index] for role, index in special_tokens(fields).items()}
    template = fields.get("tokenizer.chat_template")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        **names,
        **({"chat_template": template} if template else {}),
    }


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
