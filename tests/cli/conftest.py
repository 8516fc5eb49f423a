"""A place with a model that needs no weights, and the real console entry, run in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nightschool.cli import main

MODELS = '[roles]\nstudent = "tiny"\n\n[models.tiny]\nsource = "path:model"\ncontext = 4096\n'
SUITE = """
schema = 1
name = "toy"
system = "Answer."
max_tokens = 8
[evolve]
iterations = 1
min_reads = 1
max_turns = 2
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: models.toml (`tiny`, for the scripted backend), suite/, and ws/, a workspace of it."""
    monkeypatch.setenv("NIGHTSCHOOL_CONFIG", str(tmp_path / "config"))
    here = tmp_path / "here"
    (here / "model").mkdir(parents=True)
    (here / "model" / "config.json").write_text("{}")
    (here / "models.toml").write_text(MODELS)
    (here / "suite").mkdir()
    (here / "suite" / "suite.toml").write_text(SUITE)
    for split in ("train", "val", "test"):
        (here / "suite" / f"{split}.jsonl").write_text("".join(task(split, n) for n in range(2)))
    monkeypatch.chdir(here)
    assert main(["new", "ws", "--suite", "./suite", "--backend", "scripted"]) == 0
    return here


def task(split: str, n: int, **changed: object) -> str:
    grader = {"kind": "exact", "expected": f"v{n}"}
    return json.dumps({"id": f"{split}-{n}", "prompt": f"{split}: what is k{n}?", "grader": grader} | changed) + "\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The console entry in this process; what it returned and said."""

    def call(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        told = capsys.readouterr()
        return Ran(code, told.out, told.err)

    return call


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    """A tokenizer of single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: n for n, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"
