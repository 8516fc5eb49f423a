"""Sources become pages that quote them; twice changes nothing, and whatever a model says stays inside the tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.engine.backends import uniform
from nightschool.engine.backends.scripted import ScriptedEngine
from nightschool.engine.models import scripted_spec
from nightschool.engine.types import EngineError, Request
from nightschool.sek import ingest, lint, prose, query, sources
from nightschool.sek.router import Router
from nightschool.sek.sources import Source, pieces
from nightschool.sek.tree import Tree

TEXT = """\
# Kettles

The kettle boils water at 100 degrees.
It has a red switch.

Descale it with vinegar every month, or it fails.
"""


def reply(**changes: Any) -> Callable[[Request], str]:
    said = {
        "title": "The kettle",
        "category": "references",
        "summary": "How the kettle works.",
        "keywords": ["vinegar"],
        "claims": [{"paragraph": 3, "claim": "It is descaled monthly."}],
    }
    return lambda request: json.dumps({**said, **changes}, separators=(",", ":"), ensure_ascii=False)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "kettles.md"
    path.write_text(TEXT)
    return sources.read(path)


class Drawn(uniform.UniformEngine):
    """Draws uniformly under the grammar, with a seed of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(scripted_spec())
        self.seed = seed

    def submit(self, request: Request) -> int:
        return super().submit(replace(request, sampling=replace(request.sampling, seed=self.seed)))


def contents(tree: Tree) -> dict[str, bytes]:
    found = (path for path in tree.root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(tree.root)): path.read_bytes() for path in found}


def test_a_page_tells_where_it_comes_from_and_quotes_it(plant: Any, source: Source, words: Any) -> None:
    tree = plant({"wiki/_index.md": None})
    done = ingest.ingest(tree, source, ScriptedEngine(default=reply()))
    assert done.pages == ("wiki/references/the-kettle.md",)
    page = tree.read("wiki/references/the-kettle.md")
    assert f"sha256: {source.sha256}" in page.replace('"', "") and "lines: 1-6" in page.replace('"', "")
    assert "- It is descaled monthly.\n  > Descale it with vinegar every month, or it fails. (line 6)" in page
    assert tree.read(source.path) == TEXT
    assert "by: ingest" in tree.read("wiki/_routing.md")
    assert "the-kettle.md" in tree.read("wiki/_index.md")
    found = Router.load(Tree(tree.root), words).route("is vinegar needed?")
    assert [load.trigger for load in found.loads] == ["the-kettle"]
    assert not [each for each in lint.run(Tree(tree.root), len) if each.code in ("misquoted", "source-gone")]


def test_twice_changes_nothing_and_asks_nobody(plant: Any, source: Source) -> None:
    tree = plant()
    ingest.ingest(tree, source, ScriptedEngine(default=reply()))
    before = contents(tree)
    done = ingest.ingest(Tree(tree.root), source, ScriptedEngine())
    assert (done.pages, done.known) == ((), 1)
    assert contents(tree) == before


def test_a_changed_source_is_another_and_the_old_one_stays(plant: Any, source: Source, tmp_path: Path) -> None:
    tree = plant()
    ingest.ingest(tree, source, ScriptedEngine(default=reply()))
    (tmp_path / "kettles.md").write_text(TEXT.replace("red", "blue"))
    ingest.ingest(Tree(tree.root), sources.read(tmp_path / "kettles.md"), ScriptedEngine(default=reply()))
    assert len(list((tree.root / "sources").iterdir())) == 2
    assert tree.read(source.path) == TEXT
    assert tree.has("wiki/references/the-kettle-2.md")


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "../../etc/passwd"},
        {"title": "/root/.ssh/id"},
        {"title": "# [FAKE-001] heading --> <!--"},
        {"summary": "---\\nsource: x".replace("\\n", " ")},
        {"claims": [{"paragraph": 1, "claim": "- [ ] [TAG-001] Evidence: nothing ``` "}]},
    ],
)
def test_hostile_replies_stay_inside_and_forge_nothing(plant: Any, source: Source, changes: dict[str, Any]) -> None:
    tree = plant()
    outside = set(tree.root.parent.iterdir())
    ingest.ingest(tree, source, ScriptedEngine(default=reply(**changes)))
    assert set(tree.root.parent.iterdir()) == outside
    assert [path for path in tree.pages() if path not in Tree(tree.root).pages()] == []
    assert not [found for found in lint.run(Tree(tree.root), len) if found.level == "error"]
    from nightschool.sek import rules

    assert {rule.tag for rule in rules.every(Tree(tree.root))} == {"FE-001"}


def test_a_secret_makes_no_page(plant: Any, tmp_path: Path) -> None:
    path = tmp_path / "keys.md"
    path.write_text("The key is AKIA" + "Z7Q2M4N6P8R1T3V5\n")
    tree = plant()
    said = reply(keywords=["key"], claims=[{"paragraph": 1, "claim": "There is a key."}])
    done = ingest.ingest(tree, sources.read(path), ScriptedEngine(default=said))
    assert (done.pages, done.failed) == ((), ("1-1",))
    assert not (tree.root / "sources").exists()


def test_a_failing_engine_keeps_what_is_done_and_the_next_call_goes_on(plant: Any, tmp_path: Path) -> None:
    path = tmp_path / "long.md"
    path.write_text("\n\n".join(f"Paragraph {n} about topic{n} " + "word " * 100 for n in range(12)))
    source = sources.read(path)
    calls: list[int] = []

    def failing(request: Request) -> str:
        calls.append(1)
        if len(calls) > 2:
            raise EngineError("the engine is dead", "start it again")
        return reply(keywords=["word"], claims=[{"paragraph": 1, "claim": "Words."}])(request)

    tree = plant()
    with pytest.raises(EngineError):
        ingest.ingest(tree, source, ScriptedEngine(default=failing, context=1150, width=1))
    made = len(Tree(tree.root).pages())
    rest = ScriptedEngine(default=reply(keywords=["word"], claims=[{"paragraph": 1, "claim": "Words."}]), context=1150)
    done = ingest.ingest(Tree(tree.root), source, rest)
    assert done.known == 2 and len(Tree(tree.root).pages()) == made + len(done.pages)


def test_any_reply_under_the_grammar_makes_a_lint_clean_page(plant: Any, source: Source) -> None:
    for seed in range(20):
        tree = plant(name=f"tree{seed}")
        done = ingest.ingest(tree, source, Drawn(seed))
        assert len(done.pages) + len(done.failed) == 1
        assert not [each for each in lint.run(Tree(tree.root), len) if each.level == "error"]


@given(st.text(alphabet="ab \n\r\t#", max_size=300), st.integers(1, 40))
def test_no_line_is_lost_and_no_piece_is_too_long(text: str, tokens: int) -> None:
    made = pieces(Source("x", "sources/x.md", "0", text), len, tokens)
    covered = [number for piece in made for number in range(piece.first, piece.last + 1)]
    assert covered == sorted(set(covered))
    rows = prose.lines(text)
    assert {n for n, row in enumerate(rows, start=1) if row.strip()} <= set(covered)
    for piece in made:
        total = sum(len(each.text) for each in piece.paragraphs)
        assert total <= tokens or len(piece.paragraphs) == 1
        assert all(each.text.count("\n") <= 1 for each in piece.paragraphs if len(each.text) > tokens)


@pytest.mark.parametrize(
    ("name", "raw", "what"),
    [
        ("a.md", b"\xff\xfe", r"a\.md:1: not UTF-8"),
        ("a.md", b"x\0y", "not a text"),
        ("a.md", b" \n", "nothing in it"),
        ("a.md", b"x" * 5_000_001, "larger than 5 MB"),
    ],
)
def test_what_is_no_text_is_refused_by_its_name(tmp_path: Path, name: str, raw: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(Problem, match=what):
        sources.read(tmp_path / name)


def test_a_folder_is_read_without_its_links_and_hidden_files(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    folder = tmp_path / "in"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/x.md").write_text("x")
    (folder / "a.md").write_text("x")
    (folder / "b.png").write_bytes(b"x")
    (folder / "link.md").symlink_to(outside)
    assert [path.name for path in sources.find(folder)] == ["a.md"]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda root, path: (root / path).unlink(), "source-gone"),
        (lambda root, path: (root / path).write_text("other"), "source-changed"),
        (
            lambda root, path: (root / "wiki/references/the-kettle.md").write_text(
                (root / "wiki/references/the-kettle.md").read_text().replace("vinegar every", "wine every")
            ),
            "misquoted",
        ),
        (lambda root, path: (root / "wiki/references/the-kettle.md").unlink(), "unused-source"),
    ],
)
def test_the_linter_finds_broken_provenance(plant: Any, source: Source, spoil: Any, code: str) -> None:
    tree = plant()
    ingest.ingest(tree, source, ScriptedEngine(default=reply()))
    spoil(tree.root, source.path)
    assert code in {found.code for found in lint.run(Tree(tree.root), len)}


def test_an_answer_cites_lines_of_pages(plant: Any) -> None:
    tree = plant()
    said = '{"found":true,"answer":"Ten seconds.","cites":[2]}'
    found = query.query(tree, "how long does the alembic lock last?", ScriptedEngine(default=said))
    assert found.text == "Ten seconds." and found.tokens > 0
    assert [(cited.path, cited.line) for cited in found.cites] == [("wiki/rules/database.md", 3)]


def test_the_wiki_may_not_tell_and_nothing_is_asked_without_a_page(plant: Any) -> None:
    tree = plant()
    assert query.query(tree, "alembic?", ScriptedEngine(default='{"found":false}')).text is None
    nobody = ScriptedEngine()
    assert query.query(tree, "zzz qqq", nobody).text is None
    assert not nobody.prompts


def test_passages_know_their_lines() -> None:
    found = query.passages("p", "---\na: b\n---\n# T\n\none\ntwo\n\n- three\n")
    assert [(each.line, each.text) for each in found] == [(4, "# T"), (6, "one\ntwo"), (9, "- three")]


def test_a_long_wiki_is_cut_to_the_context(plant: Any) -> None:
    body = "\n\n".join(f"Alembic note {n} " + "word " * 30 for n in range(50))
    tree = plant({"wiki/rules/database.md": f"# Alembic\n\n{body}\n"})
    engine = ScriptedEngine(default='{"found":false}', context=3000)
    query.query(tree, "alembic?", engine)
    assert len(engine.prompts) == 1
