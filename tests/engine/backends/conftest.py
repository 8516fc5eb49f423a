"""Tiny random models of three kinds, saved as folders, seeded."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine.models import ModelSpec, Thinking

KINDS = ("llama", "sliding", "hybrid")
WIDTH = 451
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}{% endif %}"
)


def tiny_config(kind: str) -> Any:
    import transformers

    common: dict[str, Any] = {
        "vocab_size": WIDTH,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 2048,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "initializer_range": 0.3,
    }
    if kind == "llama":
        return transformers.LlamaConfig(**common, num_hidden_layers=2)
    if kind == "sliding":
        layers = ["sliding_attention", "full_attention", "sliding_attention"]
        return transformers.Gemma3TextConfig(
            **common, num_hidden_layers=3, sliding_window=24, layer_types=layers, query_pre_attn_scalar=16
        )
    layers = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
    return transformers.Qwen3_5TextConfig(
        **common,
        num_hidden_layers=4,
        layer_types=layers,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer_json: str) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            _save(kind, made[kind], tokenizer_json)
        return made[kind]

    return folder


def _save(kind: str, folder: Path, tokenizer_json: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_config(tiny_config(kind))
        model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer_json)
    config = {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(CHATML)


@pytest.fixture(scope="session")
def tiny_spec(tiny_folder: Callable[[str], Path]) -> Callable[..., ModelSpec]:
    def spec(kind: str, **changes: Any) -> ModelSpec:
        thinking = Thinking("enable_thinking", "<think>\n", "</think>\n\n")
        settings: dict[str, Any] = {"context": 2048, "dtype": "float32", "thinking": thinking, **changes}
        return ModelSpec(f"tiny-{kind}", f"path:{tiny_folder(kind)}", **settings)

    return spec


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
