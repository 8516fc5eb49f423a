"""Which backend, and why; which package is missing."""

import platform
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nightschool.disk.errors import Problem
from nightschool.engine import select
from nightschool.engine.models import ModelSpec, load_models, scripted_spec
from nightschool.engine.select import Choice, choose_backend, open_engine, resolve

SPEC = ModelSpec("m", "path:/nowhere")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(select, "missing", lambda backend: [])
    return monkeypatch


def test_the_machine_decides(machine: pytest.MonkeyPatch) -> None:
    assert choose_backend(SPEC).name == "transformers"
    machine.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert choose_backend(SPEC) == Choice("vllm", "an NVIDIA GPU")
    machine.setattr(sys, "platform", "darwin")
    machine.setattr(platform, "machine", lambda: "arm64")
    assert choose_backend(None) == Choice("mlx", "Apple silicon")


def test_transformers_steps_in_and_says_what_would_be_faster(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    machine.setattr(select, "missing", lambda backend: ["vllm"] if backend == "vllm" else [])
    choice = choose_backend(SPEC)
    assert choice.name == "transformers" and 'pip install "nightschool[cuda]"' in choice.reason


def test_requests_ties_and_servers_go_first(machine: pytest.MonkeyPatch) -> None:
    assert choose_backend(scripted_spec()).name == "scripted"
    assert choose_backend(ModelSpec("s", "http://127.0.0.1:1/v1")).name == "openai"
    assert choose_backend(scripted_spec(), "mlx") == Choice("mlx", "asked for")
    with pytest.raises(Problem) as caught:
        choose_backend(SPEC, "vlm")
    assert "'vllm'" in caught.value.advice


def test_resolving_gives_the_backends_own_view(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    models = load_models(cwd=tmp_path)
    spec, choice = resolve(models, "qwen35-4b", "mlx")
    assert choice.name == "mlx" and spec.source.startswith("hf:mlx-community/")
    assert resolve(models, "qwen35-4b")[0].backend == "transformers"


def test_a_missing_package_names_the_extra(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(select, "missing", lambda backend: ["torch"])
    with pytest.raises(Problem) as caught:
        open_engine(SPEC, backend="transformers")
    assert "torch" in caught.value.what and caught.value.advice == 'pip install "nightschool[cpu]"'


def test_a_model_that_is_not_there_names_the_command(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem) as caught:
        open_engine(replace(SPEC, source="hf:a/b@main"), backend="transformers")
    assert caught.value.advice == "nightschool models pull m"
    with pytest.raises(Problem, match="there is no model in /nowhere"):
        open_engine(SPEC, backend="transformers")
