"""Records as one HTML file that needs nothing from elsewhere: pictures, tables, and what they were measured on.

It is light or dark as the reader's system is, prints in black on white, and has narrow pictures for a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from nightschool.bench import plot
from nightschool.bench.panels import Panel, panels
from nightschool.bench.render import heading, remarks
from nightschool.bench.result import Record
from nightschool.bench.tables import Table, tables

DARK = {
    "--ink": "#e8ebf2",
    "--soft": "#98a2b8",
    "--line": "#2b3345",
    "--paper": "#12161f",
    "--a": "#7aa5ff",
    "--b": "#ff9d66",
    "--c": "#58c99f",
    "--d": "#b893f2",
    "--e": "#e2b84b",
    "--f": "#f184ad",
}
"""The colours of plot.PALETTE on dark paper."""
STYLE = """
:root { color-scheme: light dark; --font: system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; LIGHT }
@media screen and (prefers-color-scheme: dark) { :root { DARK } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 50rem; padding: 2.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 var(--font) }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.01em }
section + section { margin-top: 3.5rem; padding-top: 2.5rem; border-top: 1px solid var(--line) }
.facts { color: var(--soft); font-size: .9rem; margin: 0 0 2rem; overflow-wrap: anywhere }
figure { margin: 0 0 2.2rem } figcaption, caption { text-align: left; font-weight: 600; padding: 0 0 .5rem }
svg { display: block; width: 100%; height: auto; overflow: visible }
.narrow { display: none }
.scroll { overflow-x: auto; margin: 0 0 1.6rem }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .34rem .7rem .34rem 0; border-bottom: 1px solid var(--line); vertical-align: baseline }
th { color: var(--soft); font-weight: 500; white-space: nowrap } .figure { text-align: right; white-space: nowrap }
th:last-child, td:last-child { padding-right: 0 }
ul { color: var(--soft); font-size: .88rem; padding-left: 1.1rem; overflow-wrap: anywhere }
@media screen and (max-width: 36rem) { body { padding: 1.5rem 1rem 3rem } h1 { font-size: 1.4rem }
  .wide { display: none } .narrow { display: block } }
@media print { body { max-width: none; padding: 0; font-size: 10pt } figure, tr { break-inside: avoid }
  .scroll { overflow: visible } }
"""
HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(records: Sequence[Record]) -> str:
    """The whole file."""
    names = ", ".join(dict.fromkeys(record.bench for record in records))
    body = "\n".join(_section(record, number) for number, record in enumerate(records))
    style = STYLE.replace("LIGHT", _variables(plot.PALETTE)).replace("DARK", _variables(DARK))
    return HTML.format(title=escape(f"nightschool bench: {names}"), style=style, body=body)


def _section(record: Record, number: int) -> str:
    first, *rest = heading(record)
    facts = "<br>".join(map(escape, [first, *rest]))
    parts = [f"<h1>{escape(record.bench)}</h1>", f'<p class="facts">{facts}</p>']
    parts += [_figure(panel, f"{number}-{place}") for place, panel in enumerate(panels(record))]
    parts += [_table(table) for table in tables(record)]
    if notes := remarks(record):
        parts.append(f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>")
    return f"<section>{''.join(parts)}</section>"


def _figure(panel: Panel, salt: str) -> str:
    wide, narrow = plot.svg(panel, plot.WIDE, f"{salt}w"), plot.svg(panel, plot.NARROW, f"{salt}n")
    caption = f"<figcaption>{escape(panel.title)}</figcaption>"
    return f'<figure>{caption}<div class="wide">{wide}</div><div class="narrow">{narrow}</div></figure>'


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    head = _row("th", table.columns, table.figures)
    rows = "".join(_row("td", row, table.figures) for row in table.rows)
    return f'<div class="scroll"><table>{caption}<thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _row(kind: str, cells: Sequence[str], figures: Sequence[bool]) -> str:
    marked = (
        f"<{kind}{' class=figure' if right else ''}>{escape(cell)}</{kind}>"
        for cell, right in zip(cells, figures, strict=True)
    )
    return f"<tr>{''.join(marked)}</tr>"


def _variables(colours: dict[str, str]) -> str:
    return "; ".join(f"{name}: {colour}" for name, colour in colours.items())
