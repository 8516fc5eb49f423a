"""A model's tokens as bytes: what masks and the guard need to know of its vocabulary. Made once per model.

Every added token (`<|im_end|>`, `<think>`) is a control token here, whether its tokenizer calls it special or not: text
in a reply is always spelled with ordinary tokens. The token ids of prompts are made elsewhere (`chat.py`).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nightschool.disk.errors import Problem
from nightschool.engine import lark
from nightschool.engine.grammar import Grammar, matcher
from nightschool.engine.nodes import NOTHING, Alt, Chars, Node, Repeat
from nightschool.engine.terms import PLAIN
from nightschool.engine.utf8 import BYTE_LETTERS

Flags = NDArray[np.bool_]
_CACHED_GRAMMARS = 32
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


@dataclass(frozen=True, slots=True)
class Inside:
    """Which tokens read on inside a repetition: to the end of an item (`whole`), or into one (`partial`)."""

    whole: Flags
    partial: Flags


@dataclass(frozen=True, slots=True)
class Thought:
    """Thinking before a reply: at most `tokens` tokens, the control token `close`, and the text `after` it."""

    tokens: int
    close: int
    after: str


class Vocabulary:
    """The tokens of one model: `size` is the padded width of its logits, `eos` every id that ends a text."""

    def __init__(self, tokenizer_json: str, size: int, eos: Iterable[int]) -> None:
        import llguidance

        content = json.loads(tokenizer_json)
        self.added = {token["content"]: token["id"] for token in content.get("added_tokens", ())}
        for token in content.get("added_tokens", ()):
            token["special"] = token.get("special", False) or not token["content"].isspace()
        self.real = _highest_id(content) + 1
        self.size = max(size, self.real)
        self.eos = tuple(sorted(set(eos)))
        if not self.eos or self.eos[-1] >= self.real:
            raise Problem(
                f"end-of-text ids {list(self.eos)} are not in the vocabulary", "mend the model's config files"
            )
        source = json.dumps(content, ensure_ascii=False)
        slices = [lark.regex(PLAIN) + count for count in ("{1,10}", "{1,30}", "+")]
        self.tokenizer: Any = llguidance.LLTokenizer(source, n_vocab=self.size, eos_token=list(self.eos), slices=slices)
        self.words = (self.size + 31) // 32
        self._prototypes: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._inside: dict[str, Inside] = {}

    @classmethod
    def of_bytes(cls) -> Vocabulary:
        """A vocabulary of single bytes, which needs no model."""
        end = {"id": 256, "content": "<end>", "special": True, "single_word": False}
        content = {
            "version": "1.0",
            "added_tokens": [end | dict.fromkeys(("lstrip", "rstrip", "normalized"), False)],
            "pre_tokenizer": _BYTE_LEVEL,
            "decoder": _BYTE_LEVEL,
            "model": {"type": "BPE", "vocab": {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}, "merges": []},
        }
        return cls(json.dumps(content), 257, [256])

    @cached_property
    def open_row(self) -> NDArray[np.int32]:
        """The mask of a row without a grammar: every token of the tokenizer, nothing of the padding."""
        return pack(np.arange(self.words * 32) < self.real)

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each token; nothing for control tokens and padding."""
        special, decode = self.tokenizer.is_special_token, self.tokenizer.decode_bytes
        return [b"" if special(token) else decode([token]) for token in range(self.real)]

    @cached_property
    def _byte_ids(self) -> dict[bytes, int]:
        return {data: token for token, data in enumerate(self.token_bytes) if len(data) == 1}

    def start(self, source: str) -> Any:
        """A matcher at the start of a grammar. Threads may call it: vLLM compiles in some of its own."""
        with self._lock:
            if source not in self._prototypes:
                made = matcher(self.tokenizer, source)
                while len(self._prototypes) >= _CACHED_GRAMMARS:
                    del self._prototypes[next(iter(self._prototypes))]
                self._prototypes[source] = made
            return self._prototypes[source].deep_copy()

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of a reply's tokens; control tokens say nothing."""
        return b"".join(self.token_bytes[token] for token in tokens).decode("utf-8", "replace")

    def spell(self, data: bytes) -> list[int]:
        """Ordinary tokens that spell these bytes, which may begin inside a character."""
        start = next((at for at, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
        head = [self._byte_ids[data[at : at + 1]] for at in range(start)]
        return head + list(self.tokenizer.greedy_tokenize(data[start:].decode()))

    def thought(self, tokens: int, close: str) -> Thought:
        """How thinking ends: `close` must hold a control token; what stands before it is the model's own affair."""
        for name, token in sorted(self.added.items(), key=lambda item: -len(item[0])):
            if name in close and not name.isspace():
                return Thought(tokens, token, close.partition(name)[2])
        raise Problem(f"the end of thinking {close!r} holds no control token of this model", "mend `thinking.close`")

    def inside(self, part: Node) -> Inside:
        """The tokens that read on inside repetitions of `part`, which is made of characters."""
        name = lark.regex(part)
        if name not in self._inside:
            self._inside[name] = self._find_inside(part)
        return self._inside[name]

    def _find_inside(self, part: Node) -> Inside:
        whole = np.zeros(self.words * 32, np.bool_)
        partial = np.zeros_like(whole)
        loop = Repeat(part, 0, None)
        quick = re.compile(_python_class(part)).fullmatch
        for token, data in enumerate(self.token_bytes):
            if not data:
                continue
            if quick(data.decode("utf-8", "surrogateescape")):
                whole[token] = True
                continue
            left = read(loop, data)
            whole[token] = left.shortest == 0
            partial[token] = 0 < left.shortest < float("inf")
        return Inside(whole, partial)


def thinking_lark(grammar: Grammar | None, thought: Thought) -> str:
    """A grammar with its thinking before it: what an engine with its own matcher takes. `None`: free text follows."""
    before = f"t <[{thought.close}]>" if thought.tokens else f"<[{thought.close}]>"
    start = f"start: {before} {json.dumps(thought.after, ensure_ascii=False)} reply0\n"
    think = f"t[max_tokens={thought.tokens}]: /(?s:.*)/\n" if thought.tokens else ""
    reply = "reply0: /(?s:.*)/\n" if grammar is None else re.sub(r"(?m)^start\b", "reply0", grammar.lark)
    return lark.HEADER + start + think + reply.removeprefix(lark.HEADER)


def read(node: Node, data: bytes) -> Node:
    """What is left of a language after these bytes."""
    for byte in data:
        node = node.after(byte)
        if node is NOTHING:
            break
    return node


def pack(flags: Flags) -> NDArray[np.int32]:
    """Flags of all tokens as a row of packed words, bit = 1 allowed, lowest id first."""
    return np.packbits(flags, bitorder="little").view(np.int32)


def unpack(row: NDArray[np.int32]) -> Flags:
    """The flags of a packed row."""
    return np.unpackbits(row.view(np.uint8), bitorder="little").view(np.bool_)


def _highest_id(tokenizer: dict[str, Any]) -> int:
    vocabulary = tokenizer["model"]["vocab"]
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    highest: int = max([*ids, *(token["id"] for token in tokenizer.get("added_tokens", ()))])
    return highest


def _python_class(part: Node) -> str:
    """A regular expression for texts of the single characters that `part` allows."""
    options = part.options if isinstance(part, Alt) else (part,)
    spans = [span for option in options if isinstance(option, Chars) and not option.read for span in option.ranges]
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in spans) + "]*"
