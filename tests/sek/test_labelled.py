"""Prompts that somebody wrote who saw the pages' bodies and nothing else: the router finds the needed page as often as BM25.

`labelled/NAME.build.jsonl` may be tuned on; nothing was tuned on its other half, `test`, nor on `second`, by somebody else.
Half of the prompts avoid the words of their page.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nightschool.bench import recall
from nightschool.sek import importer
from nightschool.sek.counting import Counter, counter
from nightschool.sek.tree import Tree

HERE = Path(__file__).parent / "labelled"
FILES = Path(__file__).parents[3] / "shared/data/instructions"
NAMES = ("03-deskhq-the-desk", "04-ryoppippi-ccusage")


def imported(name: str, folder: Path, counts: Counter) -> tuple[Tree, int]:
    shutil.copy(FILES / f"{name}.md", folder / "CLAUDE.md")
    if (more := FILES / "04-imports").is_dir() and name.startswith("04"):
        shutil.copytree(more, folder, dirs_exist_ok=True)
    made = importer.plan([folder / "CLAUDE.md"], folder, counts.count)
    importer.apply(made)
    return Tree(folder), made.before


def test_the_set_is_large_hard_and_in_two_halves() -> None:
    halves = {
        half: [each for name in NAMES for each in recall.read(HERE / f"{name}.{half}.jsonl")]
        for half in ("build", "test", "second")
    }
    assert sum(map(len, halves.values())) >= 120 and len(halves["test"]) >= 60
    everybody = [each.id for rows in halves.values() for each in rows]
    assert len(everybody) == len(set(everybody))


@pytest.mark.model
@pytest.mark.skipif(not FILES.is_dir(), reason="the instruction files are not on this machine")
def test_the_needed_page_is_found_more_often_than_by_bm25_at_a_third_of_the_cost(tmp_path: Path) -> None:
    counts = counter()  # the labels name pages as they are cut with the small model's tokenizer
    if counts.estimated:
        pytest.skip("the small model's tokenizer is not on this machine")
    found, shares = [], []
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        tree, before = imported(name, folder, counts)
        for half in ("test", "second"):
            judged = recall.judge(tree, recall.read(HERE / f"{name}.{half}.jsonl"), counts.count)
            found += judged
            shares += [each.tokens / before for each in judged]
    result = recall.summed(found)
    assert result.recall >= result.bm25 and result.recall >= 0.8
    assert sum(shares) / len(shares) <= 0.35
    assert result.unseen / result.prompts >= 0.35
