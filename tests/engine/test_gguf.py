"""A GGUF file written here, converted, against what was written: weights, settings and tokenizer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightschool.disk.errors import Problem
from nightschool.engine.gguf import convert, hf_name, model_config, unpermute
from nightschool.engine.gguf_tokenizer import tokenizer_json
from nightschool.engine.models import load_models

HEADS, GROUPS, WIDTH, INNER = 4, 2, 32, 64
FIELDS: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 128,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": GROUPS,
    "llama.attention.layer_norm_rms_epsilon": 9.999999747378752e-06,
    "llama.rope.freq_base": 100000.0,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": [
        "<|end|>",
        "<extra>",
        *(chr(c) for c in range(33, 127)),
        "Ġ",
        "Ċ",
        "ab",
        "ĠĠ",
        "Ġ1",
    ],
    "tokenizer.ggml.token_type": [3, 4] + [1] * 99,
    "tokenizer.ggml.merges": ["a b", "Ġ Ġ", "Ġ 1"],
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.chat_template": "{{ messages[0]['content'] }}",
}


def permute(weights: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """The order in which llama.cpp stores q and k."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def write_gguf(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """A one-layer llama, its weights in Q8_0; returns what transformers would call them."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(FIELDS["tokenizer.ggml.tokens"])
    writer.add_token_types(FIELDS["tokenizer.ggml.token_type"])
    writer.add_token_merges(FIELDS["tokenizer.ggml.merges"])
    writer.add_eos_token_id(0)
    writer.add_chat_template(FIELDS["tokenizer.chat_template"])
    half = WIDTH * GROUPS // HEADS
    shapes = {
        "token_embd": (len(FIELDS["tokenizer.ggml.tokens"]), WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (half, WIDTH),
        "blk.0.attn_v": (half, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (INNER, WIDTH),
        "blk.0.ffn_up": (INNER, WIDTH),
        "blk.0.ffn_down": (WIDTH, INNER),
    }
    random, expected = np.random.default_rng(7), {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape).astype(np.float32)
        stored = permute(values, HEADS if "_q" in name else GROUPS) if name[-6:] in ("attn_q", "attn_k") else values
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", stored)
        else:
            packed = gguf.quants.quantize(stored, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(f"{name}.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        expected[hf_name(f"{name}.weight")] = values
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray[Any, Any]]]:
    folder = tmp_path_factory.mktemp("gguf")
    expected = write_gguf(folder / "m.gguf")
    (folder / "out").mkdir()
    convert(folder / "m.gguf", folder / "out")
    return folder / "out", expected


def test_weights_are_the_dequantised_ones(converted: tuple[Path, dict[str, np.ndarray[Any, Any]]]) -> None:
    from safetensors.numpy import load_file

    folder, expected = converted
    found = load_file(folder / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], values, atol=0.02)


def test_unpermute_undoes_llama_cpps_order() -> None:
    values = np.arange(16 * 3, dtype=np.float32).reshape(16, 3)
    for heads in (1, 2, 4):
        np.testing.assert_array_equal(unpermute(permute(values, heads), heads), values)


def test_settings(converted: tuple[Path, dict[str, np.ndarray[Any, Any]]]) -> None:
    folder, _ = converted
    config = json.loads((folder / "config.json").read_text())
    assert config["rms_norm_eps"] == 1e-5 and config["tie_word_embeddings"] and config["head_dim"] == 8
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 100000.0
    assert config["eos_token_id"] == 0 and config["num_key_value_heads"] == GROUPS
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert tokenizer["eos_token"] == "<|end|>" and tokenizer["model_max_length"] == 128
    assert (folder / "chat_template.jinja").read_text() == tokenizer["chat_template"]


def test_transformers_reads_the_folder(converted: tuple[Path, dict[str, np.ndarray[Any, Any]]]) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    folder, expected = converted
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    weight = model.model.layers[0].self_attn.q_proj.weight.detach().numpy()
    np.testing.assert_allclose(weight, expected["model.layers.0.self_attn.q_proj.weight"], atol=0.02)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "ab"


def encode(text: str, **fields: Any) -> list[str]:
    from tokenizers import Tokenizer

    tokens: list[str] = Tokenizer.from_str(tokenizer_json({**FIELDS, **fields})).encode(text).tokens
    return tokens


def test_digits_are_cut_apart_before_bpe_where_the_model_says_so() -> None:
    assert encode("ab  1") == ["ab", "ĠĠ", "1"]
    assert encode("ab  1", **{"tokenizer.ggml.pre": "gpt-2"}) == ["ab", "Ġ", "Ġ1"]


def test_control_tokens_are_special_and_bos_is_added_if_asked_for() -> None:
    from tokenizers import Tokenizer

    bos = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 0}
    assert encode("a<|end|>b<extra>", **bos) == ["<|end|>", "a", "<|end|>", "b", "<extra>"]
    tokenizer = Tokenizer.from_str(tokenizer_json(FIELDS))
    assert tokenizer.decode(tokenizer.encode("ab\n 1<|end|><extra>").ids) == "ab\n 1<extra>"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"general.architecture": "qwen2"}, "'qwen2'"),
        ({"llama.rope.scaling.type": "yarn"}, "rope"),
        ({"llama.expert_count": 8}, "experts"),
    ],
)
def test_what_is_not_known_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(Problem, match=told):
        model_config({**FIELDS, **change}, tied=True)


def test_unknown_tensors_and_tokenizers_are_refused() -> None:
    for name in ("rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.other.weight"):
        with pytest.raises(Problem, match=name):
            hf_name(name)
    with pytest.raises(Problem, match="'llama-bpe'"):
        encode("a", **{"tokenizer.ggml.pre": "llama-bpe"})
    with pytest.raises(Problem, match="'llama'"):
        encode("a", **{"tokenizer.ggml.model": "llama"})


@pytest.mark.model
def test_the_real_small_model() -> None:
    """Its digits are cut apart before BPE; transformers' own conversion of the file forgets that."""
    from tokenizers import Tokenizer

    spec = load_models().get("smollm2-135m")
    if not spec.ready:
        pytest.skip("needs: nightschool models pull smollm2-135m")
    tokenizer = Tokenizer.from_file(str(spec.folder / "tokenizer.json"))
    assert tokenizer.encode("call  42").tokens == ["call", "ĠĠ", "4", "2"]
    assert tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n").ids == [1, 4093, 198, 26843, 2, 198]
    assert json.loads((spec.folder / "config.json").read_text())["num_hidden_layers"] == 30
