"""What a decoding step costs beyond the model's own pass, on MLX: our engine beside mlx-lm with a processor a row.

All sides decode from the same cheap network (`masks_setting.py`) in one run, by turns: the pass alone, free text with
mlx-lm's own sampler, our engine (`masks_ours.py`), llguidance and outlines as logits processors (`masks_peers.py`). Times
are milliseconds, medians over steps and then over repeats; `above_forward` is all but the pass: masking and sampling.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from typing import Any

from nightschool.bench import masks_ours, masks_peers
from nightschool.bench.masks_overlap import overlap
from nightschool.bench.masks_peers import LLGuidance, Outlines, Ran, only_forward, own_sampler
from nightschool.bench.masks_setting import SHORT, TEXTS, Net, open_chat, requests, schema
from nightschool.bench.masks_table import PEERS, compared, table
from nightschool.disk.errors import Problem
from nightschool.engine import offline
from nightschool.engine.backends.mlx_model import device
from nightschool.engine.chat import Chat
from nightschool.engine.grammar import Grammar
from nightschool.engine.types import Request

WIDTH = 151_936
"""Of the vocabulary, where neither its folder nor anybody says."""
GRAMMARS = 32
MODEL = "smollm2-135m"
"""Whose tokenizer it is when nobody says."""
FORWARD = 0.020
"""Seconds of the pass behind which fills should hide."""
FILLS = (0.0, 0.010)
"""Seconds that a fill takes at least: as they are, and slow."""


class Bench:
    """One tokenizer, one network, and all sides on them."""

    def __init__(self, chat: Chat, steps: int, repeats: int, limit: float) -> None:
        """`limit` is the seconds that outlines may compile."""
        self.chat, self.steps, self.repeats = chat, steps, repeats
        self.net = Net(chat.vocabulary)
        self.grammars = [Grammar.from_schema(schema(number, TEXTS)) for number in range(GRAMMARS)]
        eos = next(name for name, token in chat.vocabulary.added.items() if token in chat.eos)
        schemas = [schema(number, SHORT) for number in range(GRAMMARS)]
        self.outlines = Outlines(chat.folder / "tokenizer.json", eos, schemas, limit)

    def row(self, rows: int, temperature: float) -> dict[str, Any]:
        """Everything about one width and temperature."""
        asked = requests(rows, temperature, self.grammars)
        repeats = [self._repeat(asked, temperature, first=number == 0) for number in range(self.repeats)]
        names = ("forward", "free", "ours", *(PEERS if self.outlines.indices else PEERS[:1]))
        times = {name: [round(median(sides[name].seconds) * 1e3, 3) for sides in repeats] for name in names}
        ours: list[masks_ours.Ours] = [sides["ours"] for sides in repeats]
        return {
            "rows": rows,
            "temperature": temperature,
            **compared({name: median(each) for name, each in times.items()}),
            "repeats_ms": times,
            "profile_ms": {part: round(median(one.parts[part] for one in ours) * 1e3, 3) for part in masks_ours.PARTS},
            "python_us": round(median(one.parts["sampler"] + one.parts["rest"] for one in ours) * 1e6),
            "mean_ms": {name: round(mean(mean(sides[name].seconds) for sides in repeats) * 1e3, 2) for name in names},
            "open": ours[0].open,
            "sampler_calls": max(one.sampler_calls for one in ours),
            "steps": {name: min(len(sides[name].seconds) for sides in repeats) for name in names},
            "replies": len(ours[0].replies),
            "valid": sum(reply.valid for reply in ours[0].replies.values()),
            "same_as_llguidance": self._same(ours[0], repeats[0]["llguidance"]) if temperature == 0 else None,
        }

    def overlap(self, rows: int, fill: float) -> dict[str, float]:
        """Whether fills hide behind the pass."""
        asked = requests(rows, 0.0, self.grammars)
        return overlap(self.chat, asked, self._prompts(asked), self.steps, FORWARD, fill)

    def _repeat(self, asked: Sequence[Request], temperature: float, first: bool) -> dict[str, Any]:
        """All sides, one after the other; our replies to their ends when it is the first time."""
        prompts, sampler = self._prompts(asked), own_sampler(temperature)

        def peer(processors: Any) -> Ran:
            return masks_peers.run(self.net, prompts, self.steps, sampler, processors, self.chat.eos)

        processors = [LLGuidance(self.chat.vocabulary, asking.grammar) for asking in asked if asking.grammar]
        sides: dict[str, Any] = {
            "forward": masks_peers.run(self.net, prompts, self.steps, only_forward),
            "free": masks_peers.run(self.net, prompts, self.steps, sampler),
            "ours": masks_ours.run(self.chat, self.net, asked, self.steps, to_the_end=first),
            "llguidance": peer(processors),
        }
        if self.outlines.indices:
            sides["outlines"] = peer(self.outlines.processors(len(asked)))
        return sides

    def _prompts(self, asked: Sequence[Request]) -> list[list[int]]:
        return [self.chat.encode(request.messages).ids for request in asked]

    def _same(self, ours: masks_ours.Ours, theirs: Ran) -> int:
        """Rows whose greedy reply is also that of llguidance's processor, as far as that one went."""
        begun = [self.chat.vocabulary.decode(tokens).rstrip("\ufffd") for tokens in theirs.tokens]
        whole = [reply.text for _, reply in sorted(ours.replies.items())]
        return sum(text.startswith(start) for text, start in zip(whole, begun, strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench masks", description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", type=Path, help=f"a folder with tokenizer.json (default: that of {MODEL})")
    parser.add_argument("--width", type=int, default=0, help=f"of the vocabulary (default: config.json, or {WIDTH})")
    parser.add_argument("--rows", default="1,8,32")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--compile-seconds", type=float, default=60, help="what outlines may take to compile")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    offline.seal()
    folder, widths = args.tokenizer or _own_tokenizer(), [int(rows) for rows in args.rows.split(",")]
    if not (folder / "tokenizer.json").is_file():
        raise SystemExit(f"there is no {folder / 'tokenizer.json'}")
    with tempfile.TemporaryDirectory(prefix="nightschool-") as work:
        record = measure(open_chat(folder, args.width, WIDTH, Path(work)), widths, args)
    print(json.dumps(record) if args.json else "\n".join(table(record)))
    return 0


def measure(chat: Chat, widths: Sequence[int], args: argparse.Namespace) -> dict[str, Any]:
    """The whole record."""
    bench = Bench(chat, args.steps, args.repeats, args.compile_seconds)
    rows, load = [], os.getloadavg()[0]
    for width in widths:
        for temperature in (0.0, 0.7):
            rows.append(bench.row(width, temperature))
            print(f"{width} rows, temperature {temperature}: done", file=sys.stderr, flush=True)
    return {
        "schema": 1,
        "tokenizer": chat.spec.alias,
        "vocabulary": chat.vocabulary.size,
        "device": device(),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "versions": {name: version(name) for name in ("mlx", "mlx-lm", "llguidance", "outlines", "outlines_core")},
        "grammars": GRAMMARS,
        "outlines": bench.outlines.told(),
        "rows": rows,
        "overlap": [{"rows": max(widths), **bench.overlap(max(widths), fill)} for fill in FILLS],
    }


def _own_tokenizer() -> Path:
    from nightschool.engine.models import load_models

    spec = load_models(None, Path.cwd()).get(MODEL)
    if not spec.ready:
        raise Problem(f"{MODEL} is not here", f"nightschool models pull {MODEL}")
    return spec.folder
