"""A record for people and for other programs: text for a terminal, Markdown, CSV, JSON.

Text fits in 80 columns: what is too long to be read there is cut, in words only, never in figures. CSV has a row for each
measure and all that tells it from others, its samples with a blank between them. JSON is the record itself, as it is kept.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence

from nightschool.bench.result import Record
from nightschool.bench.tables import GAP, NARROWEST, WIDTH, Table, tables
from nightschool.disk.errors import Problem, nearest


def render(records: Sequence[Record], form: str) -> str:
    """The records in one of FORMS."""
    if form not in FORMS:
        raise Problem(f"no format is called {form!r}", nearest(form, FORMS))
    return FORMS[form](records)


def as_text(records: Sequence[Record]) -> str:
    """For a terminal."""
    return "\n\n".join(_text(record) for record in records)


def as_markdown(records: Sequence[Record]) -> str:
    """For a page."""
    return "\n\n".join(_markdown(record) for record in records)


def as_json(records: Sequence[Record]) -> str:
    """One record, or a list of several."""
    told = [record.as_json() for record in records]
    return json.dumps(told[0] if len(told) == 1 else told, ensure_ascii=False, indent=2)


def as_csv(records: Sequence[Record]) -> str:
    """A row for each measure; a column for each parameter that any of them has."""
    keys = list(dict.fromkeys(key for record in records for one in record.measures for key in one.params))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["bench", "at", "model", "name", *keys, "unit", "n", "mean", "stddev", "median", "samples", "note"])
    for record in records:
        alias = record.model.alias if record.model else ""
        for one in record.measures:
            params = ["" if one.params.get(key) is None else one.params[key] for key in keys]
            figures = ["" if value is None else value for value in (one.mean, one.spread, one.median)]
            samples = " ".join(map(repr, one.samples))
            count = len(one.samples)
            writer.writerow(
                [record.bench, record.at, alias, one.name, *params, one.unit, count, *figures, samples, one.note]
            )
    return out.getvalue().rstrip("\n")


def heading(record: Record) -> list[str]:
    """What was measured, on what, in a few lines."""
    machine, model = record.machine, record.model
    memory = f", {machine.memory / 1e9:.0f} GB" if machine.memory else ""
    load = "load unknown" if machine.load is None else f"load {machine.load:.2f} a core"
    lines = [
        f"{record.bench}, {record.at}" + (f", commit {record.commit}" if record.commit else ""),
        f"{machine.cpu}, {machine.cores} cores{memory}, {machine.accelerator or 'no accelerator'}, {load}",
    ]
    if model:
        told = (model.backend, model.dtype, model.sha256 and model.sha256[:12])
        lines.append(f"{model.alias}: {', '.join(part for part in told if part)}")
    return lines


def remarks(record: Record) -> list[str]:
    """What a reader should know, and why figures are missing; each once."""
    missing = [f"{one.name}: {one.note}" for one in record.measures if one.note]
    return list(dict.fromkeys([*record.notes, *missing]))


def _text(record: Record) -> str:
    parts = ["\n".join(wrapped(heading(record)))]
    parts += [drawn(table) for table in tables(record)]
    if notes := remarks(record):
        parts.append("\n".join(wrapped(notes)))
    return "\n\n".join(parts)


def wrapped(lines: Sequence[str]) -> list[str]:
    """Lines broken at the edge, what goes on indented."""
    import textwrap

    return [row for line in lines for row in textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)]


def drawn(table: Table) -> str:
    """A table in columns, figures to the right."""
    from rich.cells import cell_len, set_cell_size

    widths = _widths(table, cell_len)
    lines = []
    for row in (table.columns, *table.rows):
        cells = []
        for cell, width, right in zip(row, widths, table.figures, strict=True):
            if cell_len(cell) > width:
                cell = set_cell_size(cell, width - 1).rstrip() + "…"
            blank = " " * (width - cell_len(cell))
            cells.append(blank + cell if right else cell + blank)
        lines.append((" " * GAP).join(cells).rstrip())
    return "\n".join([*wrapped([table.title]), *lines] if table.title else lines)


def _widths(table: Table, length: Callable[[str], int]) -> list[int]:
    """The width of each column; the widest words give way until the table fits."""
    widths = [max(length(row[n]) for row in (table.columns, *table.rows)) for n in range(len(table.columns))]
    words = [n for n, right in enumerate(table.figures) if not right]
    while sum(widths) + GAP * (len(widths) - 1) > WIDTH and words:
        widest = max(words, key=lambda n: widths[n])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _markdown(record: Record) -> str:
    blocks = ["  \n".join(map(_escaped, heading(record)))]
    for table in tables(record):
        lines = [
            _row(table.columns),
            _row("--:" if right else "---" for right in table.figures),
            *map(_row, table.rows),
        ]
        blocks.append("\n".join([*([f"{_escaped(table.title)}:", ""] if table.title else []), *lines]))
    if notes := remarks(record):
        blocks.append("\n".join(f"- {_escaped(note)}" for note in notes))
    return "\n\n".join(blocks)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`").replace("*", "\\*")


FORMS: dict[str, Callable[[Sequence[Record]], str]] = {
    "table": as_text,
    "md": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
