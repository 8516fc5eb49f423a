"""Records as pictures, with matplotlib: one PNG, or the SVGs that `page.py` puts into a page.

Every colour is one of PALETTE. A PNG has them as they are; an SVG has their names, as CSS variables, so that the page
decides, and it holds its words as text.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightschool.bench.panels import Panel, Series, panels
from nightschool.bench.result import Record
from nightschool.disk.errors import Problem
from nightschool.disk.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = {
    "--ink": "#1d2230",
    "--soft": "#667085",
    "--line": "#e3e7ee",
    "--paper": "#ffffff",
    "--a": "#3366cc",
    "--b": "#d9662b",
    "--c": "#23916e",
    "--d": "#8757c9",
    "--e": "#b8860b",
    "--f": "#c2447a",
}
"""Name of a colour -> how it looks on light paper."""
HUES = [colour for name, colour in PALETTE.items() if len(name) == 3]
WIDE, NARROW = 7.6, 3.7
"""Inches: of a desk, and of a phone."""
BAR, LINES = 0.3, 2.9
"""Inches of height: a bar, and a panel with lines."""
FONT = 9.5


def write(records: Sequence[Record], path: Path) -> None:
    """Draw the records into FILE.png or FILE.html."""
    if path.suffix == ".html":
        from nightschool.bench.page import page

        write_atomic(path, page(records))
    elif path.suffix == ".png":
        write_atomic(path, png([panel for record in records for panel in panels(record)]))
    else:
        raise Problem(f"{path} is neither .png nor .html", "name a file of one of these kinds")


def png(found: Sequence[Panel]) -> bytes:
    """The panels below one another, each under its title."""
    if not found:
        raise Problem("there is nothing to draw", "a table tells it all: leave out --plot")
    with _style():
        figure = _figure(found, WIDE, titled=True)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=160, bbox_inches="tight", pad_inches=0.3, metadata={"Software": None})
    return out.getvalue()


def svg(panel: Panel, width: float, salt: str) -> str:
    """One panel for a page, which tells its title; `salt` keeps its ids apart from those of the page's other pictures."""
    with _style({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        out = io.StringIO()
        _figure([panel], width).savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    for name, colour in PALETTE.items():
        text = text.replace(colour, f"var({name})")
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text, count=1)
    text = text.replace("xlink:href", "href")
    return re.sub(r"font: ((?:\d+ )?[\d.]+px)[^;\"]*", r"font: \1 var(--font)", text)


@contextmanager
def _style(more: dict[str, object] | None = None) -> Iterator[None]:
    """How all pictures look; a Problem without matplotlib. A letter that no font has is a box, and no warning."""
    try:
        import matplotlib
    except ImportError:
        raise Problem("pictures need matplotlib, which is not installed", 'pip install "nightschool[bench]"') from None
    ink, soft, line = PALETTE["--ink"], PALETTE["--soft"], PALETTE["--line"]
    settings: dict[Any, Any] = {
        "font.size": FONT,
        "text.color": ink,
        "axes.labelcolor": soft,
        "axes.edgecolor": line,
        "axes.linewidth": 1,
        "xtick.color": soft,
        "ytick.color": soft,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "grid.color": line,
        "font.sans-serif": ["DejaVu Sans"],
        "text.parse_math": False,
        "figure.facecolor": PALETTE["--paper"],
        "axes.facecolor": "none",
        "axes.axisbelow": True,
        **(more or {}),
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing|constrained_layout not applied")
        yield


def _figure(found: Sequence[Panel], width: float, titled: bool = False) -> Figure:
    from matplotlib.figure import Figure

    heights = [_height(panel, width) + 0.35 * titled for panel in found]
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(found), 1, squeeze=False, height_ratios=heights)
    for part, panel in zip(parts[:, 0], found, strict=True):
        if titled:
            part.suptitle(_cut(panel.title, 80), x=0.012, ha="left", fontsize=FONT + 2, fontweight="bold")
        _draw(part.subplots(), panel, width)
    return figure


def _height(panel: Panel, width: float) -> float:
    if panel.x:
        return LINES + 0.2 * (len(panel.series) / (3 if width == WIDE else 1))
    return BAR * len(panel.series[0].points) + 0.25


def _draw(axis: Axes, panel: Panel, width: float) -> None:
    for side in ("top", "right", "bottom", "left"):
        axis.spines[side].set_visible(False)
    if panel.x:
        _lines(axis, panel, 3 if width == WIDE else 1)
    else:
        _bars(axis, panel, 44 if width == WIDE else 22)


def _lines(axis: Axes, panel: Panel, columns: int) -> None:
    """A line through the means, and every sample as a dot."""
    for number, series in enumerate(panel.series):
        hue = HUES[number % len(HUES)]
        xs = [point.x for point in series.points]
        axis.plot(xs, [point.mean for point in series.points], color=hue, lw=2, marker="o", ms=4, label=series.label)
        _dots(axis, series, hue, lambda point, sample: (point.x, sample))
    axis.set_ylim(bottom=0)
    axis.grid(axis="y")
    axis.spines["bottom"].set_visible(True)
    axis.set_xlabel(panel.x or "")
    axis.set_ylabel(panel.unit)
    axis.yaxis.set_major_formatter(_ticks)
    axis.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=columns,
        frameon=False,
        borderpad=0,
        handlelength=1.2,
        fontsize=FONT - 0.5,
    )


def _bars(axis: Axes, panel: Panel, letters: int) -> None:
    """Bars of the means, their figures at the end, and every sample as a dot."""
    points = panel.series[0].points
    rows = [float(-n) for n in range(len(points))]
    means = [point.mean for point in points]
    axis.barh(rows, means, height=0.62, color=HUES[0])
    longest = max(max(point.samples) for point in points)
    for row, point in zip(rows, points, strict=True):
        end = max(point.samples) + longest * 0.025
        axis.text(
            end, row, f"{_ticks(point.mean)} {panel.unit}", va="center", color=PALETTE["--soft"], fontsize=FONT - 0.5
        )
        if len(point.samples) > 1:
            axis.scatter(
                point.samples, [row] * len(point.samples), s=9, color=PALETTE["--ink"], alpha=0.55, linewidths=0
            )
    axis.set_yticks(rows, [_cut(point.label, letters) for point in points], color=PALETTE["--ink"])
    axis.set_xticks([])
    axis.set_xlim(0, longest * 1.18 if longest else 1)
    axis.set_ylim(-len(points) + 0.5, 0.5)


def _dots(axis: Axes, series: Series, hue: str, place: Callable[[Any, float], tuple[float, float]]) -> None:
    spots = [place(point, sample) for point in series.points if len(point.samples) > 1 for sample in point.samples]
    if spots:
        xs, ys = zip(*spots, strict=True)
        axis.scatter(xs, ys, s=10, color=hue, alpha=0.3, linewidths=0)


def _ticks(value: float, _: object = None) -> str:
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"
