"""Records as text, Markdown, CSV, JSON and pictures: figures are whole, lines fit, and nothing comes from elsewhere."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from nightschool.bench import plot, render, result, tables
from nightschool.bench.panels import panels
from nightschool.bench.result import Machine, Measure, Model, Record
from nightschool.disk.errors import Problem

MACHINE = Machine("Linux", "a cpu", 2, 8_000_000_000, None, 0.1, {"numpy": "2"})
RECORD = Record(
    "throughput",
    "2026-01-01T00:00:00Z",
    MACHINE,
    "c0ffee",
    Model("tiny", "ab12", "float32", "transformers"),
    {},
    (
        *(Measure("pp512", "t/s", (130.0, 131.0, 133.26), "higher", {"batch": n, "kv": "f16"}) for n in (1, 8, 32)),
        *(Measure("tg128", "t/s", (10.5,), "higher", {"batch": n, "kv": "f16"}) for n in (1, 8)),
        Measure("load", "s", (), params={}, note="the <model> is on a server"),
        *(
            Measure("heading", "tok", (float(n),), params={"at": f"A.md:{n}", "heading": f"標題 {n} | x"})
            for n in range(1, 31)
        ),
    ),
    ("a note",),
)
NAMES = st.text(st.sampled_from("ab 漢🙂|<&*`\\\n"), min_size=1, max_size=90)
MEASURES = st.lists(
    st.builds(
        Measure,
        name=NAMES,
        unit=st.sampled_from(["s", "t/s", "tok"]),
        samples=st.lists(st.floats(0, 1e9), max_size=4).map(tuple),
        params=st.dictionaries(
            st.sampled_from(["batch", "side"]), NAMES | st.integers(0, 99) | st.none() | st.booleans()
        ),
        note=NAMES | st.just(""),
    ),
    max_size=6,
).map(tuple)


def test_only_what_varies_has_a_column() -> None:
    shown = render.render([RECORD], "table")
    assert re.search(r"^kv f16\nbatch +pp512 t/s +tg128 t/s\n +1 +131\.42 ± 1\.67 +10\.50$", shown, re.M)
    assert re.search(r"^ +32 +131\.42 ± 1\.67 +-$", shown, re.M)
    assert "a note" in shown and "load: the <model> is on a server" in shown and "c0ffee" in shown


def test_figures_that_do_not_fit_side_by_side_have_a_row_each() -> None:
    named = [f"a long figure {n}" for n in range(5)]
    made = tuple(Measure(name, "ms", (1000.5, 2000.25), params={"tasks": n}) for name in named for n in (10, 100))
    (table,) = tables.tables(replace(RECORD, measures=made))
    assert table.columns == ("test", "tasks", "figure", "unit") and len(table.rows) == 10
    assert max(map(len, render.drawn(table).splitlines())) <= 80


def test_a_ranking_adds_up() -> None:
    ranking = next(table for table in tables.tables(RECORD) if "heading" in table.title)
    figures = [float(row[-2]) for row in ranking.rows]
    assert figures[0] == 30 and len(figures) == tables.TOP + 2
    assert sum(figures[:-1]) == figures[-1] == sum(range(1, 31))


@settings(max_examples=60)
@given(measures=MEASURES)
def test_any_record_can_be_shown(measures: tuple[Measure, ...]) -> None:
    """At most 80 columns, where figures leave room for words; as JSON and CSV everything is there."""
    record = replace(RECORD, measures=measures)
    for table in tables.tables(record):
        assert all(len(row) == len(table.columns) == len(table.figures) for row in table.rows)
    for form in render.FORMS:
        assert render.render([record], form)
    assert (
        json.loads(render.render([record], "json"))["measures"] == json.loads(json.dumps(record.as_json()))["measures"]
    )
    rows = list(csv.DictReader(io.StringIO(render.render([record], "csv"), newline="")))
    assert [row["name"] for row in rows] == [one.name for one in measures]
    assert [tuple(map(float, row["samples"].split())) for row in rows] == [one.samples for one in measures]


@pytest.mark.parametrize("name", ["a heading that is long " * 9, "標題很長" * 30])
def test_a_terminal_has_80_columns(name: str) -> None:
    ranked = tuple(Measure("heading", "tok", (12345.0,), params={"at": name, "heading": name}) for _ in range(3))
    shown = render.render([replace(RECORD, measures=(*RECORD.measures, *ranked), notes=(name,))], "table")
    lines = shown.splitlines()
    assert max(map(cell_len, (line for line in lines if "標" not in line or "…" in line))) <= 80
    assert sum("12,345" in line and "…" in line for line in lines) == 3


def test_markdown_keeps_its_columns() -> None:
    shown = render.render([RECORD], "md")
    bars = [line.replace("\\|", "").count("|") for line in shown.splitlines() if line.startswith("|")]
    assert set(bars) == {4, 5} and "標題 30 \\| x" in shown and "&lt;model>" in shown


def test_a_format_that_is_none_is_named() -> None:
    with pytest.raises(Problem, match="jsn"):
        render.render([RECORD], "jsn")


def test_what_is_drawn() -> None:
    lines, ranking = panels(RECORD)
    assert lines.x == "batch" and [series.label for series in lines.series] == ["pp512", "tg128"]
    assert [point.x for point in lines.series[0].points] == [1, 8, 32]
    assert ranking.x is None and [point.mean for point in ranking.series[0].points][:2] == [30, 29]


def test_many_lines_have_a_panel_for_each_figure() -> None:
    sides = [f"side {n}" for n in range(4)]
    made = [
        Measure(name, "ms", (1.0,), params={"n": n, "side": side}) for name in "ab" for n in (1, 2, 3) for side in sides
    ]
    lone = Measure("a", "ms", (1.0,), params={"n": 9, "side": "alone"})
    found = panels(replace(RECORD, measures=(*made, lone)))
    assert [panel.title for panel in found] == ["a", "b"]
    assert [series.label for series in found[0].series] == sides, "one point is no line"


class Links(HTMLParser):
    """What a page would load, and the ids that it gives twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        assert tag not in ("script", "link", "img", "iframe")


def test_a_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    plot.write([RECORD, RECORD], tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    found = Links(page)
    assert found.links and all(link.startswith("#") for link in found.links)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert "http" not in page and "@import" not in page
    assert all(f"url(#{name})" not in page or name in found.ids for name in re.findall(r"url\(#([^)]+)\)", page))
    assert "131.42 ± 1.67" in page and "標題 30 | x" in page and "&lt;model&gt;" in page
    assert all(colour not in page[page.index("</style>") :] for colour in plot.PALETTE.values())


def test_a_page_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        plot.write([RECORD], tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    plot.write([RECORD], tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match=r"neither .png nor .html"):
        plot.write([RECORD], tmp_path / "r.pdf")
    with pytest.raises(Problem, match="nothing to draw"):
        plot.write([replace(RECORD, measures=())], tmp_path / "r.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Problem, match=r"nightschool\[bench\]"):
        plot.write([RECORD], tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    made = result.record("x", RECORD.measures, model=RECORD.model, settings={"a": 1}, notes=["n"])
    assert result.load(result.save(made, tmp_path)) == made
