"""Which backend, and why; which package is missing."""

import platform
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from nightschool.disk.errors import Problem
from nightschool.engine import select
from nightschool.engine.models import ModelSpec, load_models, scripted_spec
from nightschool.engine.select import Choice, choose_backend, open_engine, resolve

SPEC = ModelSpec("m", "path:/nowhere")
WRITTEN = select.written


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(select, "missing", lambda backend: [])
    monkeypatch.setattr(select, "written", lambda backend: True)
    return monkeypatch


def as_it_is(machine: pytest.MonkeyPatch, system: str, *, lacking: tuple[str, ...] = ("torch", "vllm")) -> None:
    """A Mac or a CUDA machine with this version's own backends, and without these packages."""
    machine.setattr(select, "written", WRITTEN)
    machine.setattr(select, "missing", lambda backend: [name for name in select.PACKAGES[backend] if name in lacking])
    if system == "cuda":
        machine.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi" if name == "nvidia-smi" else None)
    else:
        machine.setattr(sys, "platform", "darwin")
        machine.setattr(platform, "machine", lambda: "arm64")


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


def test_a_backend_that_cannot_be_used_names_one_that_can(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(select, "missing", lambda backend: ["vllm"] if backend == "vllm" else [])
    with pytest.raises(Problem, match="the vllm backend needs vllm") as caught:
        open_engine(SPEC, backend="vllm")
    assert caught.value.advice == 'pip install "nightschool[cuda]", or --backend transformers, which is installed'


@pytest.mark.parametrize(("name", "hint"), [("vlm", "did you mean 'vllm'? "), ("zzz", "")])
def test_an_unknown_backend_names_those_that_can_be_used(machine: pytest.MonkeyPatch, name: str, hint: str) -> None:
    machine.setattr(select, "missing", lambda backend: ["torch"] if backend in ("vllm", "transformers") else [])
    with pytest.raises(Problem, match=f"no backend is called '{name}'") as caught:
        choose_backend(SPEC, name)
    assert caught.value.advice == (
        f"{hint}here mlx and openai can be used; vllm needs an NVIDIA GPU and "
        'pip install "nightschool[cuda]"; transformers needs pip install "nightschool[cpu]"'
    )


@pytest.mark.parametrize(
    ("system", "cuda", "slow"), [("linux", False, True), ("linux", True, False), ("darwin", False, False)]
)
def test_mlx_without_a_gpu_is_told(
    machine: pytest.MonkeyPatch, tmp_path: Path, system: str, cuda: bool, slow: bool
) -> None:
    (tmp_path / "mlx").mkdir()
    (tmp_path / ("mlx_cuda_12-0.32.dist-info" if cuda else "mlx_cpu-0.32.dist-info")).mkdir()
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path / "mlx")])
    machine.setattr(select, "find_spec", lambda name: found)
    machine.setattr(sys, "platform", system)
    machine.setattr(platform, "machine", lambda: "arm64")
    machine.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert (select.slow("mlx") is not None) == slow
    assert select.slow("transformers") is None


def test_a_model_that_is_not_there_names_the_command(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem) as caught:
        open_engine(replace(SPEC, source="hf:a/b@main"), backend="transformers")
    assert caught.value.advice == "nightschool models pull m"
    with pytest.raises(Problem, match="there is no model in /nowhere"):
        open_engine(SPEC, backend="transformers")


@pytest.mark.parametrize("system", ["mac", "cuda"])
def test_a_backend_that_is_not_written_is_no_choice(machine: pytest.MonkeyPatch, tmp_path: Path, system: str) -> None:
    as_it_is(machine, system)
    own = {"mac": "mlx", "cuda": "vllm"}[system]
    choice = choose_backend(SPEC)
    if WRITTEN(own):
        assert choice.name == own
        return
    assert choice.name == "transformers" and choice.reason.endswith(f"this version of nightschool has no {own} backend")
    assert resolve(load_models(cwd=tmp_path), "qwen35-4b")[0].source == "hf:Qwen/Qwen3.5-4B@main"
    with pytest.raises(Problem, match="the transformers backend needs torch") as caught:
        open_engine(SPEC)
    assert caught.value.advice == 'pip install "nightschool[cpu]"'


@pytest.mark.parametrize("name", ["mlx", "vllm", "openai", "transformers", "scripted", "uniform"])
def test_every_backend_is_written(name: str) -> None:
    assert WRITTEN(name) and callable(import_module(f"nightschool.engine.backends.{name}").load)


@pytest.mark.parametrize("name", ["mlx", "vllm", "openai", "transformers"])
def test_a_backend_that_were_not_written_is_refused_in_two_lines(
    machine: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    machine.setattr(select, "written", lambda backend: backend != name)
    (tmp_path / "models.toml").write_text(f'[models.tied]\nsource = "path:x"\nbackend = "{name}"\n')
    models = load_models(cwd=tmp_path)
    for alias, asked in (("smollm2-135m", name), ("tied", None)):
        with pytest.raises(Problem, match=f"^{alias}: this version of nightschool has no {name} backend\n") as caught:
            resolve(models, alias, asked)
        assert "--backend" in caught.value.advice and alias in caught.value.advice
    with pytest.raises(Problem, match=f"has no {name} backend"):
        open_engine(SPEC, backend=name)


@pytest.mark.parametrize("system", ["mac", "cuda"])
def test_doctor_says_what_runs_and_what_brings_it(machine: pytest.MonkeyPatch, tmp_path: Path, system: str) -> None:
    from nightschool.cli.doctor import examine

    as_it_is(machine, system)
    machine.chdir(tmp_path)
    if WRITTEN({"mac": "mlx", "cuda": "vllm"}[system]):
        return
    record = examine()
    assert record["backend"]["name"] == "transformers" and record["backend"]["missing"] == ["torch"]
    assert record["commands"][0] == 'pip install "nightschool[cpu]"'
    assert {item["backend"] for item in record["models"]} == {"transformers"}
    as_it_is(machine, system, lacking=())
    assert not any("pip" in command for command in examine()["commands"])


def test_what_an_engine_has_to_say_reaches_the_caller(machine: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    spy = SimpleNamespace(load=lambda spec, *, width, say: heard.append((width, say)))
    machine.setattr(select, "import_module", lambda name: spy)
    open_engine(scripted_spec(), width=3, say=print)
    assert heard == [(3, print)]
