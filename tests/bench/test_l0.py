"""The token tax: every token has one heading and one paragraph, imports are counted, and what is unknown is null."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sek.instructions import NAMES, REAL, real

from nightschool.bench import l0, l0_cost, l0_headings, l0_read
from nightschool.bench.result import Record
from nightschool.disk.errors import Problem
from nightschool.engine.models import ModelSpec, load_models
from nightschool.engine.tokens import Tokens

PIECES = st.sampled_from(
    ["# A\n", "## B ##\n", "```\n# no heading\n```\n", "\n", "- a\n", "words. ", "é漢字🙂", " \r\n", "| a |\n"]
)
MODELS = '[roles]\nstudent = "tiny"\n[models.tiny]\nsource = "path:model"\ncontext = 256\ndtype = "float32"\n'


@pytest.fixture
def tokenizer_json() -> str:
    """A tokenizer of bytes, and of some words that begin with their blank."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["\u0120m", "\u0120a", "#\u0120"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: n for n, token in enumerate([*alphabet, *words])},
            merges=[(word[0], word[1]) for word in words],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return str(tokenizer.to_str())


@pytest.fixture
def place(tokenizer_json: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose student has a tokenizer and a config, but no weights."""
    monkeypatch.setenv("NIGHTSCHOOL_CONFIG", str(tmp_path / "config"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model/tokenizer.json").write_text(tokenizer_json)
    shape = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}
    (tmp_path / "model/config.json").write_text(json.dumps(shape))
    (tmp_path / "models.toml").write_text(MODELS)
    (tmp_path / "CLAUDE.md").write_text("Read @more.md first.\n\n# One\n\nWords.\n\n## Two\n\n- a\n- b\n")
    (tmp_path / "more.md").write_text("# More\n\nAnd more.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tax(record: Record, name: str, **params: str) -> float | None:
    found = record.find(name, **params)
    assert found is not None
    return found.median


@given(parts=st.lists(PIECES), edges=st.lists(st.integers(0, 200), max_size=60))
def test_the_parts_of_a_text_share_all_tokens(parts: list[str], edges: list[int]) -> None:
    text = "".join(parts)
    starts = sorted(edge for edge in edges if edge < len(text))
    for found in (l0_headings.headings(text, starts), l0_headings.paragraphs(text, starts)):
        assert sum(part.tokens for part in found) == len(starts)
        assert [part.line for part in found] == sorted(part.line for part in found)


def test_a_token_belongs_to_the_heading_of_its_first_byte() -> None:
    text = "before\n# A\nabc\n```\n# no heading\n```\n## B\nx"
    second = text.index("# A")
    third = text.index("## B")
    found = l0_headings.headings(text, [0, second - 1, second, third - 1, third, third + 1])
    assert [(part.title, part.line, part.tokens) for part in found] == [
        (l0_headings.TOP, 1, 2),
        ("A", 2, 2),
        ("B", 7, 2),
    ]


def test_imports_are_counted_and_everything_adds_up(place: Path) -> None:
    record = l0.measure(l0.Settings((place / "CLAUDE.md",), sessions_per_day=7, quick=True))
    whole = tax(record, "tokens", model="tiny", per="session")
    assert whole == sum(
        len(Tokens(place / "model/tokenizer.json").plain((place / name).read_text()))
        for name in ("CLAUDE.md", "more.md")
    )
    for name in ("heading", "paragraph"):
        assert sum(one.samples[0] for one in record.measures if one.name == name) == whole
    assert {one.params["heading"] for one in record.measures if one.name == "heading"} == {
        l0_headings.TOP,
        "One",
        "Two",
        "More",
    }
    assert tax(record, "tokens", model="tiny", per="year") == 365 * 7 * whole
    assert tax(record, "KV", model="tiny", per="session") == whole * 3 * 2 * 2 * 8 * 4 / 1e6
    assert tax(record, "context", model="tiny", per="session") == 100 * whole / 256


def test_what_is_unknown_is_null_and_says_why(place: Path) -> None:
    record = l0.measure(l0.Settings((place,), quick=True))
    absent = record.find("tokens", model="smollm2-135m")
    assert absent is not None and absent.median is None and "models pull smollm2-135m" in absent.note
    assert record.find("cold") is None and record.model is None
    assert any("no seconds" in note for note in record.notes)
    with pytest.raises(Problem):
        l0.measure(l0.Settings((place,), model="tiny", quick=True))


def test_one_file_grows_and_a_tree_does_not(place: Path) -> None:
    record = l0.measure(l0.Settings((place,), quick=True))
    flat = [one.mean or 0 for one in record.measures if one.params.get("kept in") == "one file"]
    routed = [one.mean or 0 for one in record.measures if one.params.get("kept in") == "L0 + routed"]
    assert flat[2] > 4 * flat[0] and routed[2] < flat[2] / 4


@pytest.mark.parametrize(
    ("config", "dtype", "expected"),
    [
        (
            {"text_config": {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}},
            "bfloat16",
            2 * 2 * 2 * 4 * 2,
        ),
        (
            {"layer_types": ["linear_attention", "full_attention"], "num_attention_heads": 1, "head_dim": 4},
            "float32",
            32,
        ),
        ({"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}, "auto", None),
        ({}, "float32", None),
    ],
)
def test_bytes_of_the_cache(config: object, dtype: str, expected: int | None, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert l0_cost.kv_bytes(ModelSpec("m", f"path:{tmp_path}", dtype=dtype)) == expected


def test_prompts_are_lines_or_json(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text('one\n\n{"prompt": "two"}\n')
    assert l0_read.prompts(file) == ("one", "two")
    for wrong in ("", '{"text": 1}', "{", '{"prompt": 3}'):
        file.write_text(wrong)
        with pytest.raises(Problem):
            l0_read.prompts(file)


def test_a_folder_without_instructions_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no instruction file"):
        l0_read.standing(tmp_path)


@pytest.mark.model
@pytest.mark.skipif(REAL is None, reason="shared/data/instructions is not in this checkout")
@pytest.mark.parametrize("name", NAMES)
def test_the_real_files_cost_less_once_imported(name: str, tmp_path: Path) -> None:
    from nightschool.sek import importer
    from nightschool.sek.counting import counter

    path = real(name, tmp_path)
    made = importer.plan([path], tmp_path, counter().count)
    importer.apply(made)
    after = l0_read.standing(tmp_path)
    assert after.tree is not None
    before = l0_read.original(after.tree)
    assert before is not None
    counting = l0.counting_of(load_models(cwd=tmp_path).get("smollm2-135m"))
    assert counting is not None
    totals = {}
    for label, side in {"before": l0_read.standing(before), "after": after}.items():
        totals[label] = sum(counting.count(source.text) for source in side.sources)
        parts = [one for one in l0.located({label: side}, counting) if one.name == "heading"]
        assert sum(one.samples[0] for one in parts) == totals[label]
    assert totals["before"] == made.before and totals["after"] == made.after
    assert made.l0 <= made.l0_budget
