"""The house: where things lie, which way imports go, and what starting the command line costs."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PORTIONS = ("engine", "kernels", "loop", "bench")
ORDER = ("disk", "kernels", "engine", "sek", "loop", "bench", "cli")
HEAVY = {"torch", "mlx", "mlx_lm", "vllm"}
SLOW = {"transformers", "outlines", "llguidance", "numpy", "rich", "huggingface_hub", "yaml", "jinja2"}
FILES = [path for portion in PORTIONS for path in (ROOT / portion / "nightschool").rglob("*") if path.is_file()]
MODULES = sorted(path for path in FILES if path.suffix == ".py")
DATA = [path for path in FILES if "__pycache__" not in path.parts]


def imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def test_the_namespace_has_no_init() -> None:
    found = [
        folder / "__init__.py" for portion in PORTIONS for folder in (ROOT / portion, ROOT / portion / "nightschool")
    ]
    assert not [path for path in found if path.exists()]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    layer = path.parts[path.parts.index("nightschool") + 1]
    above = ORDER[ORDER.index(layer) + 1 :]
    wrong = [name for name in imports(path) if name.startswith(tuple(f"nightschool.{other}" for other in above))]
    assert not wrong
    if layer != "kernels" and "backends" not in path.parts:
        assert not {name.split(".")[0] for name in imports(path)} & HEAVY or layer == "bench"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_say_what_they_are_and_stay_small(path: Path) -> None:
    text = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= 450


@pytest.mark.parametrize(
    "command", ["", "evolve", "eval", "status", "skills", "suite", "models", "bench", "bench l0", "doctor"]
)
def test_help_loads_no_library_of_weight(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "nightschool.cli", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("Usage: nightschool")
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | SLOW)
    assert command or "pydantic" not in loaded  # Typer reads the types of a command's options with it
    own = {name for name in loaded if name.startswith("nightschool.") and not name.startswith("nightschool.cli")}
    assert own <= {"nightschool.disk", "nightschool.disk.errors"}


def test_the_wheel_has_one_package_and_all_of_its_data(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"nightschool"}
    ours = {"/".join(path.parts[path.parts.index("nightschool") :]) for path in DATA}
    assert ours | {"nightschool/engine/models.toml"} <= names
