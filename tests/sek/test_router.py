"""Routing: sure matches, words that no trigger has, the budget, and a cache that changes the time but never the answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sek.conftest import ROUTING, Plant, Words

from nightschool.disk.errors import Problem
from nightschool.sek.counting import Counter, counter, estimate
from nightschool.sek.router import FALLBACK, RANKED, Route, Router
from nightschool.sek.terms import Terms
from nightschool.sek.tree import TERMS, Tree


def paths(route: Route) -> list[str]:
    return [load.path for load in route.loads]


def ask(tree: Tree, text: str, budget: int | None = None) -> Route:
    return Router.load(tree, Words()).route(text, budget)


@pytest.mark.parametrize(
    "text", ["fix the React app", "two UI components", "uiComponent", "ui_component", "a.tsx is broken", "REACT"]
)
def test_a_keyword_matches_in_any_form(plant: Plant, text: str) -> None:
    route = ask(plant(), text)
    assert route.loads[0].path == "wiki/rules/frontend.md" and route.loads[0].trigger == "frontend"
    assert route.loads[0].keyword in ("react", "ui component", "tsx")


@pytest.mark.parametrize("text", ["build it", "a component", "ui and some other component", "reaction"])
def test_a_keyword_does_not_match_in_a_word_or_torn_apart(plant: Plant, text: str) -> None:
    assert all(load.trigger != "frontend" for load in ask(plant(), text).loads)


@pytest.mark.parametrize(
    ("keyword", "text", "matches"),
    [
        ("測試", "請執行測試", True),
        ("測試", "請執行", False),
        ("鍵", "按下鍵盤", True),
        ("コンポーネント", "UIコンポーネントを直す", True),
        ("компонент", "новые компоненты", True),
        ("c++", "a C++ header", True),
        ("c++", "a c header", False),
        ("calc_cost", "where is calcCost called", True),
        ("calc_cost", "calc a cost", False),
        ("calc_cost", "calc cost", True),
        ("username", "the userName field", True),
    ],
)
def test_keywords_of_every_script_and_of_code(plant: Plant, keyword: str, text: str, matches: bool) -> None:
    table = f"triggers: [{{id: k, keywords: [{json.dumps(keyword)}], load: [wiki/rules/frontend.md]}}]\n"
    assert any(load.trigger == "k" for load in ask(plant({"wiki/_routing.md": table}), text).loads) == matches


def test_a_page_is_found_by_words_that_no_trigger_and_no_heading_has(plant: Plant) -> None:
    route = ask(plant(), "how long does the lock of alembic last?")
    assert paths(route)[0] == "wiki/rules/database.md"
    assert route.loads[0].trigger == RANKED and "alembic" in route.loads[0].keyword
    assert paths(ask(plant(), "how do I publish to pypi with twine"))[0] == "wiki/workflows/release.md"


def test_a_word_that_begins_alike_and_a_neighbour_find_the_page(plant: Plant) -> None:
    assert paths(ask(plant({"wiki/rules/de.md": "# Datenbank\n\nVerbindung"}), "Datenbanken"))[0] == "wiki/rules/de.md"
    assert paths(ask(plant(), "what is the price"))[0] == "wiki/references/pricing.md"
    tree = plant({"wiki/rules/place.md": "# Where\n\nOne directory a package.\n"})
    assert paths(ask(tree, "which folder"))[0] == "wiki/rules/place.md"


def test_nothing_fits_and_the_index_is_loaded(plant: Plant) -> None:
    route = ask(plant(), "good morning")
    assert route.fallback and [(load.path, load.trigger) for load in route.loads] == [("wiki/_index.md", FALLBACK)]
    assert ask(plant(), "").fallback and ask(plant(), "!?").fallback


def test_the_budget_drops_the_least_relevant_first_and_says_so(plant: Plant) -> None:
    pages = {f"wiki/rules/p{n}.md": "# Cache\n\n" + "cache " * (8 - n) + "filler " * 40 for n in range(4)}
    whole = ask(plant(pages), "cache", budget=1_000)
    assert paths(whole) == list(pages) and not whole.dropped
    assert [load.score for load in whole.loads] == sorted((load.score for load in whole.loads), reverse=True)
    some = ask(plant(pages), "cache", budget=whole.loads[0].tokens + whole.loads[1].tokens)
    assert paths(some) == list(pages)[:2] and [load.path for load in some.dropped] == list(pages)[2:]
    assert some.total_tokens == some.l0_tokens + sum(load.tokens for load in some.loads)
    assert not ask(plant(pages), "cache", budget=0).loads


def test_priority_comes_before_relevance_and_always_before_all_and_past_the_budget(plant: Plant) -> None:
    table = """\
triggers:
  - {id: low, keywords: [alembic], load: [wiki/rules/database.md]}
  - {id: high, keywords: [server], load: [wiki/workflows/release.md], priority: 5}
  - {id: laws, keywords: [always], load: [wiki/rules/frontend.md]}
"""
    tree = plant({"wiki/_routing.md": table})
    assert paths(ask(tree, "alembic server alembic lock"))[:3] == [
        "wiki/rules/frontend.md",
        "wiki/workflows/release.md",
        "wiki/rules/database.md",
    ]
    nothing = ask(tree, "good morning", budget=0)
    assert [(load.path, load.keyword) for load in nothing.loads if load.trigger != FALLBACK] == [
        ("wiki/rules/frontend.md", "always")
    ]
    assert nothing.total_tokens >= nothing.loads[0].tokens > 0


def test_a_trigger_to_a_page_that_is_not_there_loads_nothing(plant: Plant) -> None:
    tree = plant({"wiki/_routing.md": "triggers: [{id: a, keywords: [zebra], load: [wiki/rules/gone.md]}]"})
    assert ask(tree, "zebra").fallback


def test_a_page_that_cannot_be_read_is_left_out_and_told(plant: Plant) -> None:
    tree = plant({"wiki/rules/bad.md": b"react \xff"})
    router = Router.load(tree, Words())
    assert [problem.what for problem in router.index.problems] == ["wiki/rules/bad.md:1: not UTF-8"]
    assert paths(router.route("react"))[0] == "wiki/rules/frontend.md"


def test_a_huge_page_a_mark_and_windows_line_ends(plant: Plant) -> None:
    lines = "# Zebra\r\n\r\nStripes of the quagga.\r\n"
    tree = plant({"wiki/rules/big.md": "word " * 900_000, "wiki/rules/dos.md": "\ufeff" + lines})
    assert paths(ask(tree, "quagga"))[0] == "wiki/rules/dos.md"
    assert "wiki/rules/big.md" in [load.path for load in ask(tree, "word").dropped]


def test_route_writes_nothing_and_says_when_it_estimates(plant: Plant) -> None:
    tree = plant()
    before = sorted(path for path in tree.root.rglob("*"))
    assert Router.load(tree).route("react").estimated
    assert not ask(tree, "react").estimated
    assert sorted(path for path in tree.root.rglob("*")) == before


def test_a_broken_table_is_a_problem_with_its_line(plant: Plant) -> None:
    with pytest.raises(Problem, match=r"_routing\.md:2:"):
        Router.load(plant({"wiki/_routing.md": "triggers:\n  - {id: a, keywords: [], load: [x.md]}\n"}))


def fresh(tree: Tree) -> Router:
    return Router.load(Tree(tree.root), Words())


PROMPTS = ("react", "lock of alembic", "upload the wheel", "four dollars", "cache", "good morning")


def cached(tree: Tree) -> None:
    router = fresh(tree)
    router.index.save(tree, Words())


def test_the_cache_is_used_and_never_changes_the_answer(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = plant()
    without = [fresh(tree).route(text) for text in PROMPTS]
    cached(tree)
    router = fresh(tree)
    assert not router.index.changed
    monkeypatch.setattr(Tree, "read_bytes", lambda *_: pytest.fail("the cache has it"))
    assert [router.route(text) for text in PROMPTS] == without


def test_pages_that_change_come_and_go_are_followed(plant: Plant) -> None:
    tree = plant({f"wiki/rules/p{n}.md": f"# P{n}\n\ncache" for n in range(6)})
    cached(tree)
    for n in range(5):
        (tree.root / f"wiki/rules/p{n}.md").unlink() if n % 2 else (tree.root / f"wiki/rules/p{n}.md").write_text(
            "quagga " * (n + 2)
        )
        (tree.root / f"wiki/rules/new{n}.md").write_text("# New\n\nquagga cache")
        stale = [fresh(tree).route(text) for text in (*PROMPTS, "quagga")]
        cached(tree)
        assert [fresh(tree).route(text) for text in (*PROMPTS, "quagga")] == stale
        (tree.root / TERMS).rename(tree.root / "aside")
        assert [fresh(tree).route(text) for text in (*PROMPTS, "quagga")] == stale
        (tree.root / "aside").rename(tree.root / TERMS)


def test_the_table_is_cached_with_its_words(plant: Plant) -> None:
    tree = plant()
    cached(tree)
    assert fresh(tree).route("react").loads[0].trigger == "frontend"
    (tree.root / "wiki/_routing.md").write_text(ROUTING.replace("react", "zebra"))
    assert fresh(tree).route("zebra").loads[0].trigger == "frontend"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "pages": 3}', "\xff"])
def test_a_broken_cache_is_made_anew(plant: Plant, text: str) -> None:
    tree = plant({TERMS: text})
    assert paths(ask(tree, "react"))[0] == "wiki/rules/frontend.md"
    cached(tree)
    assert json.loads((tree.root / TERMS).read_text())["schema"] == 1


def test_another_counter_counts_anew(plant: Plant) -> None:
    tree = plant()
    cached(tree)
    letters = Counter("letters", None)
    assert Router.load(tree, letters).route("react").loads[0].tokens == estimate(tree.read("wiki/rules/frontend.md"))
    index = Terms.load(tree)
    index.save(tree, letters)
    assert Terms.load(tree).counter == "letters"


def test_a_disk_that_refuses_the_cache_does_no_harm(plant: Plant) -> None:
    tree = plant()
    (tree.root / "memory").write_text("in the way")
    index = Terms.load(tree)
    index.save(tree, Words())
    assert not (tree.root / TERMS).exists()


def test_large_trees_are_cut_short_but_find_what_is_rare(plant: Plant) -> None:
    pages = {f"wiki/rules/p{n:04}.md": f"# Common thing {n}\n\ncommon words everywhere" for n in range(1_500)}
    tree = plant(pages | {"wiki/rules/p0777.md": "# Common thing\n\nthe quagga, common words everywhere"})
    text = "common words everywhere thing quagga"
    assert paths(ask(tree, text))[0] == "wiki/rules/p0777.md"
    assert ask(tree, text) == ask(tree, text)


def test_a_pasted_log_is_read_at_both_ends(plant: Plant) -> None:
    assert paths(ask(plant(), "react\n" + "x1 " * 20_000 + "\nalembic lock"))[:2] == [
        "wiki/rules/frontend.md",
        "wiki/rules/database.md",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(text=st.text(max_size=400), budget=st.integers(0, 60))
def test_any_text_has_a_route_within_its_budget(plant: Plant, text: str, budget: int) -> None:
    route = ask(plant(), text, budget)
    assert sum(load.tokens for load in route.loads if load.trigger != FALLBACK) <= budget
    assert len(set(paths(route))) == len(route.loads)


def test_the_estimate_is_of_the_right_size_for_every_script() -> None:
    assert estimate("") == 0
    assert 200 <= estimate("word " * 200) <= 400
    assert 100 <= estimate("測試" * 50) <= 300


def test_without_a_model_counting_is_an_estimate(tmp_path: Path) -> None:
    assert counter(cwd=tmp_path).estimated and counter(cwd=tmp_path).name == "estimated"
    with pytest.raises(Problem, match="no model is called"):
        counter("xyzzy", cwd=tmp_path)


@pytest.mark.model
def test_tokens_are_counted_by_the_students_tokenizer(plant: Plant) -> None:
    count = counter()
    assert not count.estimated and count.count("Buttons are drawn.") == 5
    assert Router.load(plant(), count).route("react").loads[0].tokens > 10
