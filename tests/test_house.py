"""The house: where things lie, which way imports go, and what starting the command line costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PORTIONS = ("engine", "kernels", "loop", "bench")
ORDER = ("disk", "kernels", "engine", "sek", "loop", "bench", "cli")
HEAVY = {"torch", "mlx", "mlx_lm", "vllm"}
MODULES = sorted(path for portion in PORTIONS for path in (ROOT / portion / "nightschool").rglob("*.py"))


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


def test_help_loads_no_model_library() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from nightschool.cli import app;"
        "r = CliRunner().invoke(app, ['--help']); assert r.exit_code == 0, r.output;"
        "bad = {'torch','transformers','mlx','vllm','outlines','llguidance','numpy'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
