"""Pages are read once, and again whenever somebody has written them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightschool.disk.errors import Problem
from nightschool.loop.wiki import SETTLED_NS, Shelf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "patterns").mkdir()
    for name in ("b", "a"):
        (tmp_path / "patterns" / f"{name}.md").write_text(f"---\nid: {name}\n---\n## Problem\n- {name}\n")
    return tmp_path


def test_a_page_is_kept_until_its_file_is_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightschool.loop.wiki.SETTLED_NS", -SETTLED_NS)  # every file counts as old
    shelf = Shelf(folder)
    first = shelf.load()
    assert [page.id for page in first.pages] == ["a", "b"]
    assert all(now is then for now, then in zip(shelf.load().pages, first.pages, strict=True))
    (folder / "patterns/a.md").write_text("---\nid: a\n---\n## Problem\n- more than before\n")
    (folder / "patterns/b.md").unlink()
    (folder / "patterns/c.md").write_text("no front matter\n")
    now = shelf.load()
    assert [page.id for page in now.pages] == ["a", "c"] and "more than" in now.page("a").index_line


def test_a_page_of_this_moment_is_read_again_though_its_file_looks_the_same(folder: Path) -> None:
    shelf, path = Shelf(folder), folder / "patterns/a.md"
    shelf.load()
    before = path.stat()
    with path.open("r+") as file:  # the same file, the same size
        file.write(path.read_text().replace("- a", "- z"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "- z" in shelf.load().page("a").text


def test_what_is_wrong_with_a_page_is_told_with_its_path(folder: Path) -> None:
    (folder / "patterns/a.md").write_text("---\nid: a\n")
    with pytest.raises(Problem, match=r"patterns/a\.md.*no end"):
        Shelf(folder).load()


def test_no_folder_is_no_page(tmp_path: Path) -> None:
    assert Shelf(tmp_path).load().pages == ()
