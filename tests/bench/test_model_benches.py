"""The benches that load a model, on a tiny random one; no figure is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightschool.bench import constrained, startup, throughput
from nightschool.bench.result import Record, load, save
from nightschool.disk.errors import Problem

WIDTH = 451


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A models.toml with one tiny random model, whose folder lies beside it."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers import models as kinds

    root = tmp_path_factory.mktemp("bench-model")
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|im_start|>", "<|im_end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["the quick brown fox keeps the nightly log of the build host " * 4], trainer)
    config: Any = transformers.LlamaConfig(
        vocab_size=WIDTH,
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(root / "tiny")
    tokenizer.save(str(root / "tiny/tokenizer.json"))
    chat = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    chat += "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    (root / "tiny/tokenizer_config.json").write_text(json.dumps({"chat_template": chat, "eos_token": "<|im_end|>"}))
    toml = '[roles]\nstudent = "tiny"\nmaintainer = "tiny"\nproposer = "tiny"\n'
    (root / "models.toml").write_text(f'{toml}[models.tiny]\nsource = "path:tiny"\ncontext = 2048\ndtype = "float32"\n')
    return str(root / "models.toml")


def kept(record: Record, folder: Path) -> Record:
    """The record as it is read back."""
    assert load(save(record, folder)) == record
    return record


def test_throughput_tells_prefill_decode_and_both_at_each_width(models: str, tmp_path: Path) -> None:
    settings = throughput.Settings(
        model="tiny", backend="transformers", models=models, batch="1,3", prompt=64, gen=6, repeats=2
    )
    record = kept(throughput.measure(settings), tmp_path)
    for width in (1, 3):
        for name in ("pp64", "tg6", "pp64+tg6"):
            found = record.find(name, batch=width)
            assert found is not None and len(found.samples) == 2 and found.unit == "tokens/s" and found.mean
        assert record.find("tg6", batch=width, grammar=True) and record.find("peak memory", batch=width)
    energy = record.find("pp64 energy")
    assert energy is not None and (energy.samples or energy.note)
    assert record.model is not None and record.model.alias == "tiny" and record.model.dtype == "float32"


def test_constrained_tells_costs_by_grammar_and_the_ratio(models: str, tmp_path: Path) -> None:
    settings = constrained.Settings(
        model="tiny", backend="transformers", models=models, targets="10,100", batch=2, gen=4, steps=5, repeats=1
    )
    record = kept(constrained.measure(settings), tmp_path)
    for grammar, targets in (("choice", 0), ("schema", 0), ("maintainer", 100), ("proposer", 10)):
        for name in ("build", "compile", "open", "fill", "forced"):
            assert record.find(name, grammar=grammar, targets=targets), (name, grammar)
    ratio, valid = record.find("constrained / free", **{"from": "start"}), record.find("valid")
    assert ratio is not None and ratio.samples and valid is not None and valid.samples == (1.0,)


def test_startup_tells_every_part_from_fresh_processes(models: str, tmp_path: Path) -> None:
    settings = startup.Settings(model="tiny", backend="transformers", models=models, tokens=100, gen=3, repeats=1)
    record = kept(startup.measure(settings), tmp_path)
    for name in ("import", "load", "compile", "cold prompt", "warm prefix", "second turn", "process to first token"):
        found = record.find(name)
        assert found is not None and found.samples and found.samples[0] > 0, name
    disk, kv = record.find("prefix from disk"), record.find("KV")
    assert disk is not None and disk.samples == () and disk.note
    tokens = record.find("cold prompt tokens")
    assert kv is not None and tokens is not None and kv.samples == (tokens.samples[0] * 2 * 2 * 2 * 8 * 4,)


def test_a_context_is_a_file_or_skills_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be brief.\n")
    assert startup.context(startup.Settings(context=str(tmp_path / "AGENTS.md")), "X ") == "X Be brief.\n"
    with pytest.raises(Problem, match="no file, no workspace"):
        startup.context(startup.Settings(context=str(tmp_path / "none")))
