"""The bench of masks, with a tiny vocabulary: every side runs, and the record says all that is claimed of it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_lm", reason="mlx-lm is not installed: pip install 'mlx[cpu]' mlx-lm")

from nightschool.bench import masks
from nightschool.bench.masks_peers import Outlines
from nightschool.bench.masks_setting import TEXTS, open_chat, requests, schema
from nightschool.bench.masks_table import compared, table
from nightschool.engine.grammar import Grammar

WIDTH = 451
SIDES = ("forward", "free", "ours", "llguidance")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of bytes and a few merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|im_end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["the retry budget of the log rotation says replace append page text op"], trainer)
    made = tmp_path_factory.mktemp("tokenizer")
    (made / "tokenizer.json").write_text(str(tokenizer.to_str()))
    (made / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    return made


@pytest.fixture(scope="module")
def record(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = argparse.Namespace(steps=5, repeats=1, compile_seconds=20)
    chat = open_chat(folder, 0, WIDTH, tmp_path_factory.mktemp("work"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks, "TEXTS", (4, 8))
        patch.setattr(masks, "GRAMMARS", 3)
        return masks.measure(chat, [1, 2], settings)


def test_every_side_is_timed_and_compared(record: dict[str, Any]) -> None:
    assert record["vocabulary"] == WIDTH
    assert [(row["rows"], row["temperature"]) for row in record["rows"]] == [(1, 0.0), (1, 0.7), (2, 0.0), (2, 0.7)]
    sides = (*SIDES, "outlines") if record["outlines"]["compiled"] else SIDES
    for row in record["rows"]:
        assert set(row["step_ms"]) == set(row["repeats_ms"]) == set(row["mean_ms"]) == set(sides)
        assert set(row["above_forward_ms"]) == set(sides) - {"forward"}
        assert set(row["above_free_ms"]) == set(sides) - {"forward", "free"}
        assert set(row["times_ours"]) == set(sides) - {"forward", "free", "ours"}
        assert all(count > 0 for count in row["steps"].values())
        assert set(row["profile_ms"]) == {"consume", "fill", "graph", "dispatch", "wait", "sampler", "rest"}
        assert row["python_us"] > 0
        assert 0 <= row["open"] <= 1
    assert json.loads(json.dumps(record)) == record


def test_one_draw_serves_all_rows_and_every_reply_of_ours_is_valid(record: dict[str, Any]) -> None:
    for row in record["rows"]:
        assert row["sampler_calls"] == 1
        assert row["valid"] == row["replies"] == row["rows"]
        assert row["same_as_llguidance"] == (row["rows"] if row["temperature"] == 0 else None)


def test_the_overlap_is_told_for_fills_as_they_are_and_for_slow_ones(record: dict[str, Any]) -> None:
    assert [told["rows"] for told in record["overlap"]] == [2, 2]
    for told in record["overlap"]:
        assert set(told) == {"rows", "forward", "fill", "step", "step_without_fill", "overlap", "hidden"}
        assert told["overlap"] == pytest.approx(told["step_without_fill"] + told["fill"] - told["step"], abs=0.05)


def test_the_table_has_a_line_for_each_width_and_temperature(record: dict[str, Any]) -> None:
    lines = list(table(record))
    assert lines[1] == record["outlines"]["note"]
    assert sum(line.lstrip().startswith(("1  0.", "2  0.")) for line in lines) == 4


def test_outlines_is_cut_when_its_time_is_up(folder: Path) -> None:
    cut = Outlines(folder / "tokenizer.json", "<|im_end|>", [schema(0, (8, 16))] * 50, 0.0)
    assert cut.told()["compiled"] < 50
    assert "cut at 0 s" in cut.told()["note"]


def test_schemas_differ_and_every_row_has_room_for_its_reply() -> None:
    grammars = [Grammar.from_schema(schema(number, TEXTS)) for number in range(32)]
    assert len({grammar.lark for grammar in grammars}) == 32
    for asked in requests(40, 0.7, grammars):
        assert asked.grammar is not None
        assert asked.sampling.max_tokens >= asked.grammar.limit


def test_what_cannot_be_compared_is_not() -> None:
    told = compared({"forward": 10.0, "free": 11.0, "ours": 12.0, "llguidance": 18.0, "outlines": 20.0})
    assert told["times_ours"] == {"llguidance": 4.0, "outlines": 5.0}
    assert told["above_free_ms"] == {"ours": 1.0, "llguidance": 7.0, "outlines": 9.0}
    drowned = compared({"forward": 10.0, "free": 11.0, "ours": 9.0, "llguidance": 18.0})
    assert drowned["times_ours"] == {"llguidance": None}
