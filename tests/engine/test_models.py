"""models.toml: strict reading, look-up, overrides and roles, through `load_models`."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nightschool.disk.errors import Problem
from nightschool.engine.models import load_models, scripted_spec, shipped
from nightschool.engine.models_toml import EntryTable, SamplingTable, ThinkingTable

ENTRY = '[models.mine]\nsource = "path:weights"\ncontext = 4096\n'


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NIGHTSCHOOL_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NIGHTSCHOOL_CONFIG", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    (tmp_path / "here").mkdir()
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def problem(places: Path, text: str) -> Problem:
    with pytest.raises(Problem) as caught:
        load_models(write(places / "m.toml", text), cwd=places / "here")
    return caught.value


def test_the_shipped_file_resolves_on_every_backend(places: Path) -> None:
    models = load_models(cwd=places)
    assert {"smollm2-135m", "qwen35-4b", "qwen35-9b", "qwen36-27b", "gemma4-31b"} <= set(models)
    for backend in (None, "mlx", "vllm", "transformers"):
        for spec in models.available(backend):
            assert spec.weights_gb and spec.context >= 8192 and spec.origin == str(shipped())
    assert models.get("qwen35-4b", "mlx").source == "hf:mlx-community/Qwen3.5-4B-4bit@main"
    assert models.get("qwen35-4b", "vllm").source == "hf:Qwen/Qwen3.5-4B@main"
    assert models.get("smollm2-135m").sha256 and models.roles.student == "smollm2-135m"


def test_the_shipped_file_explains_every_key_and_no_other(places: Path) -> None:
    text = shipped().read_text("utf-8")
    for table in (EntryTable, ThinkingTable, SamplingTable):
        assert all(re.search(rf"^#.*\b{key}\b", text, re.MULTILINE) for key in table.model_fields)
    told = re.search(r"^#   sampling (.*\n(?:#     .*\n)*)", text, re.MULTILINE)
    assert told and set(re.findall(r"\w+_\w+", told[1])) == set(SamplingTable.model_fields)


def test_the_nearest_file_gives_the_whole_entry(places: Path) -> None:
    write(places / "config" / "models.toml", ENTRY.replace("4096", "1024") + '[models.far]\nsource = "path:x"\n')
    write(places / "here" / "models.toml", ENTRY.replace("4096", "2048"))
    given = write(places / "given.toml", ENTRY)
    assert load_models(given, cwd=places / "here").get("mine").context == 4096
    assert load_models(cwd=places / "here").get("mine").context == 2048
    assert load_models(cwd=places).get("mine").context == 1024
    far = load_models(given, cwd=places / "here").get("far")
    assert (far.context, far.origin) == (8192, str(places / "config" / "models.toml"))


def test_roles_are_merged_one_by_one(places: Path) -> None:
    write(places / "config" / "models.toml", '[roles]\nproposer = "mine"\nstudent = "qwen35-4b"\n' + ENTRY)
    given = write(places / "given.toml", '[roles]\nstudent = "mine"\n')
    roles = load_models(given, cwd=places).roles
    assert (roles.student, roles.proposer, roles.judge) == ("mine", "mine", "mine")


def test_a_folder_is_meant_from_its_file_and_used_in_place(places: Path) -> None:
    spec = load_models(write(places / "m.toml", ENTRY)).get("mine")
    assert spec.folder == places / "weights" and not spec.ready
    spec.folder.mkdir()
    (spec.folder / "config.json").write_text("{}")
    assert spec.ready


def test_a_backend_overrides_keys_and_keeps_its_options(places: Path) -> None:
    text = (
        '[models.mine]\nsource = "pypi:x==1#x/y.gguf"\nsha256 = "' + "0" * 64 + '"\nsampling = { top_k = 3 }\n'
        '[models.mine.vllm]\nsource = "hf:a/b@main"\nenforce_eager = true\ncompilation = { level = 3 }\n'
        '[models.mine.mlx]\ncontext = 512\nthinking = { kwarg = "t", open = "<t>", close = "</t>" }\n'
    )
    models = load_models(write(places / "m.toml", text))
    vllm, mlx = models.get("mine", "vllm"), models.get("mine", "mlx")
    assert vllm.options == {"enforce_eager": True, "compilation": {"level": 3}}
    assert vllm.sha256 is None and vllm.backend == "vllm" and vllm.sampling == {"top_k": 3}
    assert mlx.sha256 == "0" * 64 and mlx.context == 512 and mlx.thinking and mlx.thinking.open == "<t>"
    assert mlx.folder != vllm.folder and mlx.folder.parent == places / "cache" / "models"
    assert hash(mlx) != hash(vllm)


def test_a_server_is_always_ready_and_names_its_host(places: Path) -> None:
    text = '[models.srv.openai]\nsource = "http://10.0.0.7:8080/v1"\nmodel = "m"\n'
    models = load_models(write(places / "m.toml", text))
    spec = models.get("srv", "openai")
    assert spec.ready and spec.kind == "http" and spec.options == {"model": "m"}
    assert models.hosts() == ("10.0.0.7",)
    assert "srv" not in [other.alias for other in models.available("mlx")]
    with pytest.raises(Problem, match="no source for this backend"):
        models.get("srv", "mlx")


@pytest.mark.parametrize(
    ("text", "what", "advice"),
    [
        ("[models.mine]\nsuorce = 'path:x'\n", "m.toml:2: unknown key 'models.mine.suorce'", "'source'"),
        ("[model.mine]\nsource = 'path:x'\n", "m.toml:1: unknown key 'model'", "'models'"),
        ("[roles]\nstudnet = 'a'\n", "m.toml:2: unknown key 'roles.studnet'", "'student'"),
        (
            ENTRY + "thinking = { kwarg='a', open='b', close='c', clos='d' }\n",
            "'models.mine.thinking.clos'",
            "'close'",
        ),
        (
            ENTRY + "[models.mine.mlx]\ncontxt = 4\n",
            "m.toml:5: unknown key 'models.mine.mlx.contxt'",
            "'context'",
        ),
        (
            ENTRY + "[models.mine.mlx]\nsampling = { topp = 1.0 }\n",
            "'models.mine.mlx.sampling.topp'",
            "'top_p'",
        ),
        *(
            (ENTRY + f"sampling = {{ {key} = 1 }}\n", f"m.toml:4: unknown key 'models.mine.sampling.{key}'", "")
            for key in ("temperature", "max_tokens")
        ),
        (ENTRY + "dtype = 'float8'\n", "m.toml:4: models.mine.dtype", "every key"),
        (ENTRY + "sha256 = 'abc'\n", "m.toml:4: models.mine.sha256", "every key"),
        (ENTRY.replace("4096", "'4096'"), "m.toml:3: models.mine.context", "every key"),
        ("[models.mine]\nsource = 'ftp://x'\n", "m.toml:2: 'ftp://x' is no source", "hf:REPO@REVISION"),
        ("[models.mine]\nsource = 'hf:a/b'\n", "m.toml:2: 'hf:a/b' is no source", "hf:REPO@REVISION"),
        ("[models.Mine]\nsource = 'path:x'\n", "m.toml:1: 'Mine' is no alias", "a-z"),
        ("[models.mine]\ncontext = 512\n", "m.toml:1: [models.mine] has no source", "source ="),
        (ENTRY + "template = 'plian'\n", "m.toml:4: 'plian' is no template", "Jinja"),
        (ENTRY + "context = 9\n", "m.toml:4: not TOML", "mend"),
        ("[roles]\nstudent = 'smollm2-135'\n", "the student is 'smollm2-135'", "smollm2-135m"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(places: Path, text: str, what: str, advice: str) -> None:
    error = problem(places, text)
    assert what in error.what and advice in error.advice
    assert "\n" not in error.what + error.advice


def test_a_file_that_is_not_text_or_not_there(places: Path) -> None:
    (places / "m.toml").write_bytes(b"# ok\n\xff\n")
    with pytest.raises(Problem, match=r"m\.toml:2: not UTF-8"):
        load_models(places / "m.toml")
    with pytest.raises(Problem, match="there is no file"):
        load_models(places / "none.toml")


def test_an_unknown_alias_names_the_nearest(places: Path) -> None:
    with pytest.raises(Problem) as caught:
        load_models(cwd=places).get("qwen35-4")
    assert "qwen35-4b" in caught.value.advice


def test_the_scripted_model_needs_no_file() -> None:
    spec = scripted_spec(context=512)
    assert spec.ready and spec.backend == "scripted" and spec.context == 512


def test_the_fingerprint_follows_weights_and_keys(places: Path) -> None:
    spec = load_models(write(places / "m.toml", ENTRY)).get("mine")
    spec.folder.mkdir()
    (spec.folder / "model.safetensors").write_bytes(b"12")
    first = spec.fingerprint
    assert first == spec.fingerprint
    assert len({first, replace(spec, context=512).fingerprint, replace(spec, template="plain").fingerprint}) == 3
    (spec.folder / "model.safetensors").write_bytes(b"123")
    assert spec.fingerprint != first


def test_a_number_that_python_cannot_read_is_a_broken_file(places: Path) -> None:
    assert "not TOML" in problem(places, ENTRY.replace("4096", "4" * 5000)).what


def test_a_byte_order_mark_is_nothing_to_complain_of(places: Path) -> None:
    found = load_models(write(places / "m.toml", "\ufeff" + ENTRY), cwd=places / "here")
    assert found.get("mine").context == 4096
