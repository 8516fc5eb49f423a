"""Short nights killed in the middle with SIGKILL and taken up again: of the real small model on transformers, and of tiny
random weights with its tokenizer on MLX."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine.models import load_models
from nightschool.loop import skills, wiki
from nightschool.loop.journal import Journal
from nightschool.loop.report import status
from nightschool.loop.suite import materialise
from nightschool.loop.workspace import Workspace

MODEL = "smollm2-135m"
SIZES = {"train": 6, "val": 4, "test": 4}
FLAGS = ["--iterations", "1", "--min-reads", "1", "--set", "max_turns=2"]

pytestmark = pytest.mark.model


def nightschool(*words: str) -> subprocess.Popen[str]:
    """The command line in a process of its own, so that it can be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "nightschool.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def to_the_end(process: subprocess.Popen[str]) -> None:
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0, told


def kill_when(process: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    while not ready():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def stamps(space: Workspace) -> dict[Path, tuple[int, int]]:
    """Every trace, and when it was made."""
    found = [path for split in SIZES for path in space.raw.glob(f"*/{split}/*.json")]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def tiny(work: Path) -> Path:
    """A models.toml with `tiny`: random weights, so small that MLX is quick on any CPU; tokenizer and template are real."""
    import transformers

    real = load_models(cwd=work).get(MODEL)
    folder = work / "tiny"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(real.folder / name, folder / name)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    config = transformers.AutoConfig.from_pretrained(real.folder, **sizes, **heads)
    transformers.set_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    table = {"source": f"path:{folder}", "context": real.context, "dtype": "float32", "template": "plain"}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    (work / "models.toml").write_text(f"[models.tiny]\n{lines}")
    return work / "models.toml"


@pytest.fixture(scope="module", params=["transformers", "mlx"])
def night(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[Path, tuple[int, int]]]:
    """A night that was killed among its train tasks, then at its gate, and then ran to its end; its first traces."""
    work = tmp_path_factory.mktemp("real")
    flags = ["--backend", request.param, *FLAGS]
    if request.param == "mlx":
        pytest.importorskip("mlx_lm", reason="mlx-lm is not installed: pip install 'mlx[cpu]' mlx-lm")
        name, flags = "runbook:3", [*flags, "--model", "tiny", "--models", str(tiny(work))]
    else:
        name, flags = "style:3", [*flags, "--model", MODEL]
    suite = materialise(name, work / "whole").folder
    for split, size in SIZES.items():
        lines = (suite / f"{split}.jsonl").read_text("utf-8").splitlines()
        (suite / f"{split}.jsonl").write_text("\n".join(lines[:size]) + "\n", "utf-8")
    space = Workspace(work / "job")
    to_the_end(nightschool("new", str(space.root), "--suite", str(suite)))
    command = ["evolve", str(space.root), *flags]
    kill_when(nightschool(*command), lambda: bool(list(space.raw.glob("iter-001/train/*.json"))))
    early = stamps(space)
    kill_when(nightschool(*command), lambda: Journal(space.journal).find("proposal", 1) is not None)
    to_the_end(nightschool(*command))
    assert status(space)["backend"] == request.param
    return space, early


def test_the_night_is_complete(night: Any) -> None:
    record = status(night[0])
    assert record["state"] == "finished"
    assert record["resumes"] == 2
    assert record["test"]["tasks"] == SIZES["test"]


def test_every_reply_is_valid_and_every_edit_is_applied(night: Any) -> None:
    record = status(night[0])
    assert record["replies"]["valid"] == record["replies"]["total"] >= 3
    assert record["edits"]["applied"] == record["edits"]["total"]


def test_every_task_is_done_and_none_twice(night: Any) -> None:
    space, early = night
    after = stamps(space)
    assert {path: after[path] for path in early} == early
    events = Counter((event["event"], event["k"]) for event in Journal(space.journal).events)
    assert max(events.values()) == 1
    for event, k in [one for one in events if one[0] in SIZES]:
        assert len(list((space.iteration(k) / event).glob("*.json"))) == SIZES[event]


def test_no_skill_stands_that_the_gate_did_not_let_in(night: Any) -> None:
    space, _ = night
    accepted = {event["skill"] for event in Journal(space.journal).of("gate") if event["accepted"]}
    assert set(skills.load(space.skills)) == accepted
    assert not space.candidate.exists()


def test_no_edit_of_the_wiki_is_lost(night: Any) -> None:
    space, _ = night
    plan = json.loads((space.iteration(1) / "study.json").read_text("utf-8"))
    assert plan["pages"]
    for page in plan["pages"]:
        assert wiki.load(space.wiki).page(page["id"]).text == page["text"]


def test_every_iteration_is_told_once(night: Any) -> None:
    space, _ = night
    for log in ("skill-impact.md", "logs.md"):
        assert [heading.split(" | ")[0] for heading, _ in wiki.entries((space.wiki / log).read_text("utf-8"))] == [
            "iteration 1"
        ]
