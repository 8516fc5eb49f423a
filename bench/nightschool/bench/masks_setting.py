"""What all sides of `bench masks` share: a network that costs little, 32 grammars, and a tokenizer with its width."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from nightschool.engine.backends.mlx_rows import RowTags
from nightschool.engine.chat import Chat
from nightschool.engine.grammar import Grammar
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Message, Request, Sampling
from nightschool.engine.vocabulary import Vocabulary

TABLES = 64
"""Different rows of logits."""
FILES = ("tokenizer.json", "tokenizer_config.json", "config.json")
TEXTS = (300, 400)
"""Characters of a text in a reply: at least, and at most in the first schema."""
SHORT = (8, 16)
"""The same in the schemas that outlines gets: it compiles every length into states, each over the whole vocabulary."""
SHAPES = (
    ("edits", "op", "page", "text", "log"),
    ("changes", "action", "file", "line", "summary"),
    ("patches", "kind", "target", "content", "reason"),
    ("steps", "verb", "object", "detail", "note"),
)
VERBS = ("replace", "append", "insert_after", "no_action", "merge", "split", "rename", "cite")
NOUNS = ("retry-budget", "log-rotation", "units", "time-zones", "empty-input", "rounding", "quotes", "paths", "locks")


class Net:
    """Logits that depend on the last token alone: reading them costs a copy of a row, as a fresh result would.

    They are noise, and favour tokens that spell much, so that a reply is mostly text, as with a trained model.
    """

    layers = ()

    def __init__(self, vocabulary: Vocabulary, work: int = 0) -> None:
        """`work` is how many multiplications of matrices a pass does besides."""
        rng = np.random.default_rng(7)
        favour = np.zeros(vocabulary.size, np.float32)
        favour[: vocabulary.real] = [min(len(data), 8) for data in vocabulary.token_bytes]
        self._table = mx.array((rng.standard_normal((TABLES, len(favour)), np.float32) + favour) * np.float32(4))
        self._matrix = mx.array(rng.standard_normal((128, 128), np.float32) / np.float32(16))
        self.work = work
        mx.eval(self._table, self._matrix)

    def make_cache(self) -> list[Any]:
        """Nothing to remember; mlx-lm wants one."""
        return [RowTags([0])]

    def __call__(self, inputs: mx.array, cache: Sequence[Any]) -> mx.array:
        """Logits (B, tokens, V)."""
        logits = mx.take(self._table, inputs % TABLES, axis=0)
        if not self.work:
            return logits
        value = self._matrix * (inputs.sum() % 2 + 1)
        for _ in range(self.work):
            value = value @ self._matrix
        return logits + value[0, 0] * 0


def schema(number: int, texts: tuple[int, int]) -> dict[str, Any]:
    """One of many schemas that are alike but not the same: a list of edits, and a line about them."""
    listed, verb, noun, text, note = SHAPES[number % len(SHAPES)]
    least, most = texts[0], texts[1] + 5 * (number % 8)
    edit = {
        verb: {"enum": [VERBS[(number + k) % len(VERBS)] for k in range(2 + number % 3)]},
        noun: {"enum": [f"{NOUNS[(number * (k + 1)) % len(NOUNS)]}-{k}.md" for k in range(3 + number % 5)]},
        text: {"type": "string", "minLength": least, "maxLength": most},
    }
    edits = {"type": "array", "items": _object(edit), "minItems": 3, "maxItems": 4}
    return _object({listed: edits, note: {"type": "string", "minLength": least // 2, "maxLength": most}})


def open_chat(source: Path, width: int, otherwise: int, work: Path) -> Chat:
    """The tokenizer of a folder, copied to `work`, under a vocabulary of `width`: 0 is what its config.json says."""
    for name in FILES:
        if (source / name).is_file():
            (work / name).write_text((source / name).read_text("utf-8"), "utf-8")
    has_config = (work / "config.json").is_file()
    if width or not has_config:
        config = json.loads((work / "config.json").read_text("utf-8")) if has_config else {}
        (work / "config.json").write_text(json.dumps(config | {"vocab_size": width or otherwise}), "utf-8")
    return Chat(ModelSpec(source.name, f"path:{work}", context=1 << 20, template="plain"))


def requests(rows: int, temperature: float, grammars: Sequence[Grammar | None]) -> list[Request]:
    """A request a row, each with a grammar of its own, and room for the longest reply."""
    made = []
    for row in range(rows):
        grammar = grammars[row % len(grammars)]
        sampling = Sampling(max_tokens=grammar.limit if grammar else 1024, temperature=temperature, seed=row)
        made.append(Request((Message("user", f"What does log {row} say?"),), grammar, sampling))
    return made


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
