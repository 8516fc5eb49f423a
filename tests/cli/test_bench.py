"""`nightschool bench` at the command line: every bench by one table, records kept and compared, and nothing half-said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
from tests.cli.conftest import Run

from nightschool.bench import result
from nightschool.bench.result import Measure, Record
from nightschool.cli import bench_all
from nightschool.cli.bench_run import BENCHES, Bench

RUNS = count(1)


@dataclass(frozen=True)
class Settings:
    """What a bench may be asked for."""

    model: str | None = None
    kind: str = "1,2"
    exact: bool = False
    widths: tuple[int, ...] = (1, 8)


def measure(settings: Settings, tell: Callable[[str], None]) -> Record:
    """A bench that takes no time."""
    tell("measuring")
    seconds = (1.0 if settings.model != "slow" else 1.5) * (1 + next(RUNS) / 10_000)
    made = [
        Measure("step", "s", (seconds, seconds * 1.01, seconds * 0.99), params={"width": width})
        for width in settings.widths
    ]
    return result.record("throughput", made, settings={"exact": settings.exact, "kind": settings.kind})


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where records are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/nightschool/bench"


@pytest.fixture
def benched(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if the bench were the module above."""
    name = "nightschool.bench.made_up"
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(Settings=Settings, measure=measure)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(BENCHES, "throughput", Bench("made_up", BENCHES["throughput"].help, {"exact": True}))
    return state


@pytest.fixture
def project(place: Path, state: Path) -> Path:
    """A folder with instructions."""
    (place / "AGENTS.md").write_text("# Rules\n\nBe brief.\n")
    return place


def test_a_bench_is_run_kept_and_listed(benched: Path, run: Run) -> None:
    ran = run("bench", "throughput", "--set", "widths=1,2,4", "--quick", "--set", "kind=1,8")
    assert ran.code == 0 and "measuring" in ran.err and "1.00 ± 0.01" in ran.out
    (file,) = benched.iterdir()
    record = result.load(file)
    assert [one.params["width"] for one in record.measures] == [1, 2, 4] and record.settings == {
        "exact": True,
        "kind": "1,8",
    }
    (listed,) = json.loads(run("bench", "history", "--json").out)
    assert listed["name"] == file.stem and listed["headline"] == {
        "name": "step",
        "median": record.measures[0].median,
        "unit": "s",
    }
    assert file.stem in run("bench", "history").out
    assert json.loads(run("bench", "show", file.stem, "--json").out) == json.loads(file.read_text())
    assert run("bench", "show", file.stem, "--format", "csv").out.startswith("bench,at,model,name,width,unit,n")


def test_a_regression_ends_with_1(benched: Path, run: Run) -> None:
    for model in ("fast", "slow", "fast"):
        assert run("bench", "throughput", "--model", model, "--json").code == 0
    first, slow, second = (file.stem for file in sorted(benched.iterdir(), key=lambda file: file.stat().st_mtime_ns))
    slower = run("bench", "compare", first, slow)
    assert slower.code == 1 and "REGRESSION" in slower.out and "2 regressions beyond 5%" in slower.out
    assert run("bench", "compare", slow, first).code == 0
    assert run("bench", "compare", first, slow, "--threshold", "0.9").code == 0
    same = run("bench", "compare", first, second, "--json")
    assert same.code == 0 and json.loads(same.out)["same"] is True


def test_a_record_can_be_left_unkept_and_drawn(benched: Path, run: Run, tmp_path: Path) -> None:
    ran = run("bench", "throughput", "--no-save", "--format", "md", "--plot", str(tmp_path / "p.html"))
    assert ran.code == 0 and "| width | step s |" in ran.out and not benched.exists()
    assert "<svg" in (tmp_path / "p.html").read_text()
    assert run("bench", "throughput", "--no-save", "--plot", str(tmp_path / "p.gif")).code == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("throughput --set width=1", "did you mean 'widths'"),
        ("throughput --set model=x", "no setting 'model'"),
        ("throughput --set widths=x", "is no tuple"),
        ("throughput --set exact=3", "is no bool"),
        ("throughput --format yaml", "no format is called 'yaml'"),
        ("l0 nowhere.md", "nowhere.md"),
        ("compare one two", "no record is called 'one'"),
        ("show one", "bench history"),
    ],
)
def test_what_is_wrong_is_said_in_two_lines(benched: Path, run: Run, command: str, said: str) -> None:
    ran = run("bench", *command.split())
    assert ran.code == 2 and not ran.out
    assert said in ran.err and ran.err.count("error: ") == 1 and "Traceback" not in ran.err
    assert not benched.exists(), "nothing is kept"


def test_a_bench_that_is_not_there_says_so(run: Run, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHES, "startup", Bench("nowhere", BENCHES["startup"].help))
    assert "has no bench startup" in run("bench", "startup").err


def test_the_tax_of_a_project(project: Path, run: Run) -> None:
    (project / "models.toml").unlink()
    ran = run("bench", "l0", "--quick", "--json", "--no-save")
    record = json.loads(ran.out)
    assert ran.code == 0 and record["bench"] == "l0" and record["settings"]["AGENTS.md"] == "."
    assert all(not one["samples"] and one["note"] for one in record["measures"]), "no tokenizer is on this machine"


def test_the_tax_by_prompt(project: Path, run: Run, tokenizer_file: Path) -> None:
    (project / "model/tokenizer.json").write_text(tokenizer_file.read_text())
    (project / "tree").mkdir()
    (project / "tree/CLAUDE.md").write_text("# A\n\nNever guess.\n\n# Deploy\n\nDeploy with make.\n" * 30)
    assert run("sek", "import", "tree/CLAUDE.md").code == 0
    (project / "prompts").write_text("how do I deploy?\nhello\n")
    record = json.loads(run("bench", "l0", "tree", "--prompts", "prompts", "--quick", "--json").out)
    prompt = {one["params"]["text"]: one["samples"] for one in record["measures"] if one["name"] == "prompt"}
    tokens = {
        one["params"]["text"]: one["samples"][0]
        for one in record["measures"]
        if one["params"].get("per") == "session" and one["name"] == "tokens" and one["samples"]
    }
    assert prompt["before"] == [tokens["before"]] and len(prompt["after"]) == 2
    assert min(prompt["after"]) >= tokens["after"]


def test_alone_it_shows_the_tax_then_the_speed(project: Path, benched: Path, run: Run, tokenizer_file: Path) -> None:
    (project / "model/tokenizer.json").write_text(tokenizer_file.read_text())
    ran = run("bench")
    assert ran.code == 0 and ran.out.index("Rules") < ran.out.index("step")
    assert not benched.exists(), "a glance is not kept"
    (project / "AGENTS.md").unlink()
    bare = run("bench")
    assert bare.code == 0 and "no instruction file here" in bare.err and "step" in bare.out


def test_all_of_them(project: Path, state: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_all, "BENCHES", {"l0": BENCHES["l0"]})
    ran = run("bench", "all", "--quick", "--json")
    assert ran.code == 0 and json.loads(ran.out)["bench"] == "l0" and len(list(state.iterdir())) == 1
    monkeypatch.setattr(bench_all, "QUICK_SECONDS", 0.01)
    cut = run("bench", "all", "--quick")
    assert cut.code == 1 and "cut after 0 s" in cut.err and len(list(state.iterdir())) == 1


def test_every_bench_of_the_table_has_a_help(run: Run) -> None:
    for name in BENCHES:
        assert "--repeats" in run("bench", name, "--help").out
