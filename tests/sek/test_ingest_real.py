"""A real small model ingests a text and is asked about it: what it says may be poor, but it is valid, filed and cited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightschool.cli import main
from nightschool.sek import lint
from nightschool.sek.counting import estimate
from nightschool.sek.tree import Tree

TEXT = """\
# Deploying

The staging server is deployed from the branch `next`, every night at two.

Production is deployed by hand: tag the commit, then run `deploy production`.

When a deployment fails, run `deploy rollback` first and ask afterwards.
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    assert main(["sek", "init", "--agent", "generic"]) == 0
    (tmp_path / "deploying.md").write_text(TEXT)
    yield tmp_path


@pytest.mark.model
def test_a_real_model_ingests_and_answers(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wiki", "ingest", "deploying.md", "--backend", "transformers"]) == 0
    (page,) = Tree(here).pages()
    assert "  > " in Tree(here).read(page)
    assert not [found for found in lint.run(Tree(here), estimate) if found.level == "error"]
    before = {path: path.read_bytes() for path in here.rglob("*.md")}
    assert main(["wiki", "ingest", "deploying.md", "--backend", "transformers"]) == 0
    assert {path: path.read_bytes() for path in here.rglob("*.md")} == before
    capsys.readouterr()
    code = main(["wiki", "query", "what to do when a deployment fails?", "--backend", "transformers"])
    out = capsys.readouterr().out
    assert code in (0, 1)
    assert (f"  {page}:" in out) == (code == 0)
