"""Tiny random models of three kinds, saved as folders, seeded."""

import json
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
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
        common["hidden_size"] = 64  # its square root, a factor of this model, is exact in every dtype
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


@pytest.fixture(scope="session")
def mlx_spec(tiny_spec: Callable[..., ModelSpec]) -> Callable[..., ModelSpec]:
    """The same weights in a folder with the config that mlx-lm expects; that of transformers lies within."""

    def spec(kind: str, **changes: Any) -> ModelSpec:
        found = tiny_spec(kind, **changes)
        folder = found.folder.with_name(f"{found.folder.name}-mlx")
        if not folder.exists():
            shutil.copytree(found.folder, folder / "transformers")
            for file in (folder / "transformers").iterdir():
                (folder / file.name).symlink_to(file)
            (folder / "config.json").unlink()
            config = json.loads((folder / "transformers" / "config.json").read_text())
            config |= {"sliding_window_pattern": 2, "full_attention_interval": 2}
            if kind == "hybrid":
                config = {"model_type": "qwen3_5", "eos_token_id": config["eos_token_id"], "text_config": config}
            (folder / "config.json").write_text(json.dumps(config))
        return replace(found, source=f"path:{folder}")

    return spec


@pytest.fixture(scope="session")
def vllm_spec(tiny_folder: Callable[[str], Path], tiny_spec: Callable[..., ModelSpec]) -> Callable[..., ModelSpec]:
    """The tiny llama with heads of 32 numbers: vLLM has none smaller on a CPU."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    base = tiny_folder("llama")
    folder = base.with_name(f"{base.name}-vllm")
    shutil.copytree(base, folder)
    torch.manual_seed(8)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base, head_dim=32)).save_pretrained(folder)

    shared = {"gpu_memory": 0.3} if torch.cuda.is_available() else {}  # tests open one engine beside another

    def spec(**changes: Any) -> ModelSpec:
        options = {**shared, **changes.pop("options", {})}
        return replace(tiny_spec("llama", options=options, **changes), source=f"path:{folder}")

    return spec


class Counter:
    """Counts prompt tokens that a model really reads."""

    read = 0


class Transformers:
    """How the tests look into the transformers backend."""

    out_of_memory = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    def __init__(self, spec: Callable[..., ModelSpec]) -> None:
        from nightschool.engine.backends.transformers import load

        self.spec, self.load = spec, load

    def before_passes(self, patch: pytest.MonkeyPatch, hook: Callable[[int, int], None]) -> None:
        """`hook` is told the rows and the tokens of each pass of the model before it is computed."""
        from nightschool.engine.backends.torch_model import TorchModel

        original = TorchModel.forward

        def forward(model: Any, ids: Any, *rest: Any) -> Any:
            hook(*ids.shape)
            return original(model, ids, *rest)

        patch.setattr(TorchModel, "forward", forward)

    def count_prompt_tokens(self, patch: pytest.MonkeyPatch) -> Counter:
        """For replies of one token: all that is read is prompt."""
        counter = Counter()

        def count(rows: int, tokens: int) -> None:
            counter.read += rows * tokens

        self.before_passes(patch, count)
        return counter

    def read_at_most(self, tokens: int, patch: pytest.MonkeyPatch) -> None:
        """Bound one pass over a prompt."""
        from nightschool.engine.backends import torch_batch

        patch.setattr(torch_batch, "PASS", tokens)


class MLX:
    """How the tests look into the MLX backend."""

    out_of_memory = RuntimeError("[metal::malloc] Attempting to allocate 1 bytes which is greater than the maximum")

    def __init__(self, spec: Callable[..., ModelSpec]) -> None:
        from nightschool.engine.backends.mlx import load

        self.spec, self.load = spec, load

    def before_passes(self, patch: pytest.MonkeyPatch, hook: Callable[[int, int], None]) -> None:
        """`hook` is told the rows and the tokens of each pass of the generator before it is computed."""
        from nightschool.engine.backends.mlx_rows import TaggedModel

        original = TaggedModel.__call__

        def call(model: Any, inputs: Any, cache: Any) -> Any:
            hook(*inputs.shape)
            return original(model, inputs, cache)

        patch.setattr(TaggedModel, "__call__", call)

    def count_prompt_tokens(self, patch: pytest.MonkeyPatch) -> Counter:
        """What is read apart, and what is left to the generator (which pads, and reads on by a token)."""
        from nightschool.engine.backends.mlx_model import MLXModel
        from nightschool.engine.backends.mlx_prefix import Prefixes

        counter, read, begin = Counter(), MLXModel.read, Prefixes.begin

        def counted_read(model: Any, tokens: list[int], *rest: Any) -> None:
            counter.read += len(tokens)
            read(model, tokens, *rest)

        def counted_begin(prefixes: Any, reply: Any) -> Any:
            start = begin(prefixes, reply)
            counter.read += sum(map(len, start.segments))
            return start

        patch.setattr(MLXModel, "read", counted_read)
        patch.setattr(Prefixes, "begin", counted_begin)
        return counter

    def read_at_most(self, tokens: int, patch: pytest.MonkeyPatch) -> None:
        """Bound one pass over a prompt."""
        from nightschool.engine.backends import mlx_engine, mlx_prefix

        for module in (mlx_engine, mlx_prefix):
            patch.setattr(module, "CHUNK", tokens)


@pytest.fixture(params=["transformers", "mlx"])
def backend(
    request: pytest.FixtureRequest, tiny_spec: Callable[..., ModelSpec], mlx_spec: Callable[..., ModelSpec]
) -> Any:
    """One backend after the other."""
    if request.param == "transformers":
        return Transformers(tiny_spec)
    pytest.importorskip("mlx_lm", reason="mlx-lm is not installed: pip install 'mlx[cpu]' mlx-lm")
    return MLX(mlx_spec)


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


@pytest.fixture
def engines() -> Any:
    """Opens engines on servers, and closes them in the end: no thread is left."""
    before, opened = set(threading.enumerate()), []

    def make(spec: ModelSpec, **given: Any) -> Any:
        from nightschool.engine.backends.openai import load

        opened.append(load(spec, **given))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "server-call"]
