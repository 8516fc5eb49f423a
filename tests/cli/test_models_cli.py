"""`nightschool models` and `nightschool doctor`, through the command line's own app."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from nightschool.cli import app
from nightschool.disk.errors import Problem
from nightschool.engine import fetch, offline, select
from nightschool.engine.models import ModelSpec

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if not enable_thinking %}<think></think>{% endif %}{% endif %}"
)
MARKS = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<think>", "</think>")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home", "config", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("NIGHTSCHOOL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NIGHTSCHOOL_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("NIGHTSCHOOL_MODELS", raising=False)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(offline, "seal", lambda allow=(): None)  # a seal would outlive the test
    return tmp_path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A folder that holds a tiny tokenizer with thinking, and a file that passes for weights."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path / "My Model-4B"
    folder.mkdir()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(mark, special=True) for mark in MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"vocab_size": 300, "max_position_embeddings": 4096, "eos_token_id": 256}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def problem(*arguments: str) -> Problem:
    """What the root of the command line would print."""
    error = run(*arguments).exception
    assert isinstance(error, Problem), error
    return error


def test_list_shows_what_is_here_and_where_it_comes_from(weights: Path) -> None:
    run("models", "add", str(weights), "--here")
    listed = {item["alias"]: item for item in json.loads(run("models", "list", "--json").stdout)}
    assert listed["my-model-4b"]["ready"] and not listed["smollm2-135m"]["ready"]
    assert listed["smollm2-135m"]["roles"] == ["student", "maintainer", "proposer", "judge"]
    text = run("models", "list").stdout
    assert "./models.toml" in text and "built in" in text
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, run("models", "list", "--backend", "mlx").stdout.splitlines())) <= 80


def test_list_shows_the_view_of_a_backend() -> None:
    listed = {item["alias"]: item for item in json.loads(run("models", "list", "--backend", "mlx", "--json").stdout)}
    assert listed["qwen35-4b"]["source"].startswith("hf:mlx-community/")
    assert "'mlx'" in problem("models", "list", "--backend", "mxl").advice


def test_add_writes_an_entry_that_check_accepts(weights: Path, places: Path) -> None:
    result = run("models", "add", str(weights), "--alias", "mine")
    assert result.exit_code == 0 and "[models.mine]" in result.stdout
    text = (places / "config" / "models.toml").read_text()
    assert "context = 4096" in text and 'kwarg = "enable_thinking"' in text and 'template = "model"' in text
    checked = run("models", "check", "mine", "--json")
    found = {item["name"]: item for item in json.loads(checked.stdout)}
    assert checked.exit_code == 0 and all(item["ok"] for item in found.values())
    assert found.keys() >= {"files", "context", "tokenizer", "template", "thinking.open", "thinking.kwarg"}
    assert "already" in problem("models", "add", str(weights), "--alias", "mine").what
    run("models", "add", str(weights))
    assert (places / "config" / "models.toml").read_text().count("[models.") == 2


def test_add_refuses_what_is_no_model_and_keeps_a_broken_file(places: Path, weights: Path) -> None:
    assert "no model folder" in problem("models", "add", str(places)).what
    (places / "config" / "models.toml").write_text("[broken\n")
    assert "not TOML" in problem("models", "add", str(weights)).what
    assert (places / "config" / "models.toml").read_text() == "[broken\n"


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ("context = 9999\n", "context"),
        ('thinking = { kwarg = "enable_thinking", open = "<thought>", close = "</think>" }\n', "thinking.open"),
        ('thinking = { kwarg = "enable_thinkin", open = "<think>", close = "</think>" }\n', "thinking.kwarg"),
        ('template = "{% for m in messages %}"\n', "template"),
    ],
)
def test_check_finds_what_does_not_suit(weights: Path, places: Path, entry: str, wrong: str) -> None:
    head = f'[models.mine]\nsource = "path:{weights}"\n'
    context = "" if "context" in entry else "context = 4096\n"
    (places / "here" / "models.toml").write_text(head + context + entry)
    result = run("models", "check", "mine", "--json")
    assert result.exit_code == 1
    assert [item["name"] for item in json.loads(result.stdout) if not item["ok"]] == [wrong]


def test_check_says_how_to_get_a_model_that_is_not_here() -> None:
    assert problem("models", "check", "smollm2-135m").advice == "nightschool models pull smollm2-135m"


def test_pull_prints_the_folder_and_tells_the_steps_once(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    def pull(spec: ModelSpec, progress: Any) -> Path:
        for done in range(3):
            progress("fetching it", done, 3)
        return spec.folder

    monkeypatch.setattr(fetch, "pull", pull)
    result = run("models", "pull", "smollm2-135m")
    assert result.stdout.strip() == run("models", "path", "smollm2-135m").stdout.strip()
    assert result.stdout.startswith(str(places / "home" / "models"))
    assert result.stderr.count("fetching it") == 1


def test_pull_knows_all_names_before_it_fetches_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "pull", lambda *arguments: pytest.fail("pulled"))
    assert "smollm2-135m" in problem("models", "pull", "smollm2-135m", "smollm2-135").advice


def test_doctor_names_the_machine_the_model_and_the_commands() -> None:
    record = json.loads(run("doctor", "--json").stdout)
    assert record["backend"]["reason"] and record["device"]["cores"] >= 1 and record["packages"]["numpy"]
    assert record["largest"] in [item["alias"] for item in record["models"]]
    assert f"nightschool models pull {record['largest']}" in record["commands"]
    text = run("doctor").stdout
    assert "largest that fits" in text and record["commands"][-1] in text


def test_doctor_says_why_each_other_backend_was_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "choose_backend", lambda *_: select.Choice("mlx", "asked for"))
    monkeypatch.setattr(select, "missing", lambda backend: ["vllm"] if backend == "vllm" else [])
    monkeypatch.setattr(select, "_mlx_gpu", lambda: False)
    monkeypatch.setattr(select, "_nvidia", lambda: False)
    backend = json.loads(run("doctor", "--json").stdout)["backend"]
    assert backend["slow"] == "MLX has no GPU here: on a CPU it is some ten times slower than transformers"
    assert backend["not_chosen"] == {
        "vllm": 'no NVIDIA GPU here; not installed: vllm (pip install "nightschool[cuda]")',
        "transformers": "mlx suits this machine better; --backend transformers works too",
        "openai": "for a model on a server that you run (docs/servers.md)",
    }
    lines = [" ".join(line.split()) for line in run("doctor").stdout.splitlines()]
    assert f"slow {backend['slow']}" in lines
    assert all(f"not {name} {reason}" in lines for name, reason in backend["not_chosen"].items())


def test_a_student_on_a_server_needs_nothing_here() -> None:
    text = '[roles]\nstudent = "far"\n[models.far]\nsource = "http://127.0.0.1:9/v1"\n'
    Path("models.toml").write_text(text)
    record = json.loads(run("doctor", "--json").stdout)
    assert record["backend"]["name"] == "openai" and record["backend"]["missing"] == []
    assert record["commands"] == ["nightschool models check far", "nightschool evolve --model far"]
    listed = {item["alias"]: item for item in json.loads(run("models", "list", "--json").stdout)}
    assert listed["far"]["backend"] == "openai" and listed["far"]["ready"] and listed["far"]["folder"] is None


def test_doctor_names_the_path_of_the_students_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(run("doctor", "--json").stdout)["caches"] is None
    monkeypatch.setattr(select, "caches", lambda spec: f"running states of {spec.alias}")
    assert "running states of smollm2-135m" in run("doctor").stdout


def test_help_loads_no_model_library() -> None:
    code = (
        "import sys; from nightschool.cli import app\n"
        "heavy = {'torch', 'transformers', 'mlx', 'vllm', 'outlines', 'pydantic', 'rich', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == "[]"
