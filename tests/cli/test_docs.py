"""docs/cli.md is what the commands print; pictures need nothing from elsewhere; what is shown of models.toml is read."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from nightschool.engine.backends.openai_options import read_options as server_options
from nightschool.engine.backends.vllm_settings import read_options as vllm_options
from nightschool.engine.models import load_models

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = spec_from_file_location("docs_make", ROOT / "docs" / "make.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_commands_print(make: ModuleType) -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    if make.made_with() not in page:
        pytest.skip(f"docs/cli.md was made with another version than this {make.made_with()}")
    assert page == make.cli_md(), "run: make docs"


def test_every_command_is_in_the_page(make: ModuleType) -> None:
    named = [" ".join(command) for command in make.commands()]
    assert {"new", "evolve", "eval", "status", "trace", "doctor", "suite check", "skills revoke"} <= set(named)


@pytest.mark.parametrize("name", ["night", "morning"])
def test_a_picture_needs_nothing_from_elsewhere(make: ModuleType, name: str) -> None:
    assert make.picture({"night": make.board, "morning": make.summary}[name](), name).startswith("<svg")
    kept = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8")
    assert "http" not in kept.replace("http://www.w3.org/2000/svg", "") and len(kept) < 40_000


def test_the_readme_says_how_the_program_is_called_in_a_clone_and_what_making_it_needs() -> None:
    readme, makefile = (ROOT / "README.md").read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")
    folder = next(line.removeprefix("BIN := ") for line in makefile.splitlines() if line.startswith("BIN := "))
    assert f"`{folder}/nightschool`" in readme and f"`. {folder}/activate`" in readme
    assert "-m venv" in makefile and "apt install make python3-venv python3-pip" in readme


BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
    if "[models." in block
]


@pytest.mark.parametrize("block", BLOCKS)
def test_what_a_page_shows_of_models_toml_is_read(block: str, tmp_path: Path) -> None:
    """Whole entries, and tables of one backend over an entry of the package."""
    known = load_models(cwd=tmp_path)
    shown = {alias for alias in re.findall(r"^\[models\.([a-z0-9-]+)", block, re.MULTILINE) if alias in known}
    block += "".join(f'\n[models.{alias}]\nsource = "path:."\n' for alias in shown if f"[models.{alias}]" not in block)
    (tmp_path / "models.toml").write_text(block, "utf-8")
    models = load_models(cwd=tmp_path)
    for alias in re.findall(r"^\[models\.([a-z0-9-]+)\.openai\]", block, re.MULTILINE):
        server_options(models.get(alias, "openai"))
    for alias in re.findall(r"^\[models\.([a-z0-9-]+)\.vllm\]", block, re.MULTILINE):
        vllm_options(models.get(alias, "vllm"))
