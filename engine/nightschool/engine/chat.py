"""Conversations to token ids, for the backends that run a model in this process.

`Encoded.boundaries` are the token offsets whose KV cache is worth keeping: the end of what all prompts with this
system message share, and the end of what stays a prefix when the conversation goes on (templates rewrite earlier
turns, so this is found by rendering the continuation, not assumed). Rendering is `template.py`, tokenising `tokens.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightschool.disk.errors import Problem
from nightschool.engine.models import ModelSpec
from nightschool.engine.template import PLAIN_STOP, Piece, load_template, read_json
from nightschool.engine.tokens import Tokens
from nightschool.engine.types import Message

if TYPE_CHECKING:
    from nightschool.engine.vocabulary import Vocabulary

_PROBES = ("0", "Zq")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt as token ids, and the offsets in it where a KV snapshot is worth keeping, ascending."""

    ids: list[int]
    boundaries: tuple[int, ...] = ()


class Chat:
    """A model's template and tokenizer."""

    def __init__(self, spec: ModelSpec, folder: Path | None = None) -> None:
        """Reads the model's folder; Problem if its template cannot hold a conversation."""
        self.spec = spec
        self.folder = folder or spec.folder
        self.tokens = Tokens(self.folder / "tokenizer.json")
        self._template = load_template(spec.alias, spec.template, self.folder, self.tokens.auto_bos)
        self.stops = (PLAIN_STOP,) if spec.template == "plain" else ()
        self._heads: dict[tuple[tuple[Message, ...], bool], int] = {}
        probe = [Message("user", _PROBES[0])]
        if self._ids(probe, False) == self._ids(probe, False, generate=False):
            raise Problem(
                f"the chat template of {spec.alias} has no generation prompt",
                "it must end with the opening of the assistant's turn when add_generation_prompt is true",
            )

    def encode(self, messages: Sequence[Message], think: bool = False) -> Encoded:
        """The prompt for the next reply."""
        ids = self._ids(messages, think)
        offsets = {self._head(messages, think), min(self._stable(messages, ids, think), len(ids) - 1)}
        return Encoded(ids, tuple(sorted(offset for offset in offsets if 0 < offset < len(ids))))

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt for the next reply."""
        return len(self._ids(messages, False))

    def parts(self, messages: Sequence[Message]) -> list[tuple[str, int]]:
        """Each message, named for people, and the tokens of its content."""
        return [
            (f"message {i + 1} ({message.role})", len(self.tokens.plain(message.content)))
            for i, message in enumerate(messages)
        ]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What grammars are compiled against."""
        from nightschool.engine.vocabulary import Vocabulary

        return Vocabulary(self.tokens.json, self.width, self.eos)

    @cached_property
    def width(self) -> int:
        """The model's padded vocabulary: the width of its logits."""
        config = self._config
        return int((config.get("text_config") or {}).get("vocab_size") or config.get("vocab_size") or self.tokens.size)

    @cached_property
    def eos(self) -> tuple[int, ...]:
        """Every id that ends a reply, by the model's, the generation's and the tokenizer's settings together."""
        generation = read_json(self.folder / "generation_config.json")
        sources = (self._config, self._config.get("text_config") or {}, generation)
        found: set[int] = set()
        for value in (source.get("eos_token_id") for source in sources):
            found.update(value if isinstance(value, list) else [] if value is None else [value])
        own = self.tokens.id_of(str(self._template.variables["eos_token"]))
        found |= set() if own is None else {own}
        if not found:
            raise Problem(f"{self.spec.alias} names no end-of-text token", "add eos_token_id to its config.json")
        return tuple(sorted(found))

    @cached_property
    def _config(self) -> dict[str, Any]:
        return read_json(self.folder / "config.json")

    def switches(self, messages: Sequence[Message]) -> bool:
        """Whether the template itself heeds the model's switch for thinking."""
        kwarg = self.spec.thinking.kwarg if self.spec.thinking else ""
        on, off = (self._template.render(messages, True, **{kwarg: think}) for think in (True, False))
        return on != off

    def _ids(self, messages: Sequence[Message], think: bool, generate: bool = True) -> list[int]:
        return self.tokens.encode(self._render(messages, think, generate))

    def _render(self, messages: Sequence[Message], think: bool, generate: bool) -> list[Piece]:
        thinking = self.spec.thinking
        if thinking is None:
            return self._template.render(messages, generate)
        pieces = self._template.render(messages, generate, **{thinking.kwarg: think})
        opened = pieces and not pieces[-1].content and pieces[-1].text.rstrip().endswith(thinking.open.strip())
        if think and generate and not opened:
            pieces.append(Piece(thinking.open, False))
        return pieces

    def _head(self, messages: Sequence[Message], think: bool) -> int:
        """Where prompts with this system message begin to differ."""
        head = tuple(messages[:1]) if messages and messages[0].role == "system" else ()
        if (head, think) not in self._heads:
            if len(self._heads) > 64:
                self._heads.clear()
            one, other = ([*head, Message("user", probe)] for probe in _PROBES)
            self._heads[head, think] = _common(self._ids(one, think), self._ids(other, think))
        return self._heads[head, think]

    def _stable(self, messages: Sequence[Message], ids: list[int], think: bool) -> int:
        """How much of a prompt is still its beginning when a reply and another turn follow."""
        after = [*messages, Message("assistant", _PROBES[0]), Message("user", _PROBES[1])]
        try:
            return _common(ids, self._ids(after, think))
        except Problem:
            return 0


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
