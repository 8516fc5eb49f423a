"""Text to token ids, and what a token spells, on the `tokenizers` library alone.

Added tokens that are not white space are control tokens. They exist only where the template puts them: the encoder
has its added tokens taken out, so the same characters in a message become ordinary tokens. A token spells bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.engine.template import Piece
from nightschool.engine.utf8 import BYTE_LETTERS


class Tokens:
    """A model's tokenizer.json."""

    def __init__(self, path: Path) -> None:
        """Raises Problem when the file is missing or no tokenizer."""
        import tokenizers

        try:
            self.json = path.read_text(encoding="utf-8")
            self._full = tokenizers.Tokenizer.from_str(self.json)
        except FileNotFoundError:
            raise Problem(f"there is no {path}", "pull the model again, or give a folder that has it") from None
        except Exception as error:
            raise Problem(f"{path} is no tokenizer: {error}", "pull the model again") from None
        parts = json.loads(self.json)
        added = parts.get("added_tokens", [])
        self._added = {token["id"]: token for token in added}
        self._control = {token["content"]: token for token in added if token["content"].strip(" \n\t\r▁")}
        self._control_ids = {token["id"] for token in self._control.values()}
        parts["added_tokens"] = [token for token in added if token["content"] not in self._control]
        parts["post_processor"] = parts["truncation"] = parts["padding"] = None
        _never_prepend(parts.get("pre_tokenizer"))
        self._encoder = tokenizers.Tokenizer.from_str(json.dumps(parts))
        self._bytes: dict[int, bytes] = {}

    @property
    def size(self) -> int:
        """How many ids the tokenizer knows; a model may have more, which are padding."""
        return int(self._full.get_vocab_size(with_added_tokens=True))

    def id_of(self, token: str) -> int | None:
        """The id of one token, by its spelling."""
        found = self._full.token_to_id(token)
        return None if found is None else int(found)

    @cached_property
    def auto_bos(self) -> str:
        """The control tokens that the tokenizer itself puts before a text."""
        ids = self._full.encode("x", add_special_tokens=True).ids
        lead = []
        for token in ids:
            if token not in self._control_ids:
                break
            lead.append(self._added[token]["content"])
        return "".join(lead)

    def encode(self, pieces: Iterable[Piece]) -> list[int]:
        """Token ids: control tokens from the template's words only, all text between two of them as one."""
        ids: list[int] = []
        text = ""
        for piece in pieces:
            if piece.content:
                text += piece.text
                continue
            end = 0
            for match in self._pattern.finditer(piece.text):
                ids += self.plain(text + piece.text[end : match.start()])
                ids.append(self._control[match.group().strip()]["id"])
                text, end = "", match.end()
            text += piece.text[end:]
        return ids + self.plain(text)

    def plain(self, text: str) -> list[int]:
        """Ids of a text without a single control token, whatever it spells."""
        return [token for token, _ in self.located(text)]

    def located(self, text: str) -> list[tuple[int, int]]:
        """The ids of `plain`, each with the index of the character in which its first byte lies, ascending."""
        if not text:
            return []
        encoding = self._encoder.encode(text, add_special_tokens=False)
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if token in self._control_ids and end - start > 1:
                rest = self.located(text[start + 1 :])
                return self.located(text[: start + 1]) + [(other, start + 1 + at) for other, at in rest]
        return [(int(token), int(start)) for token, (start, _) in zip(encoding.ids, encoding.offsets, strict=True)]

    def bytes_of(self, token: int) -> bytes:
        """What one token spells; nothing for special tokens and padding."""
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = self._spell(token)
        return known

    def _spell(self, token: int) -> bytes:
        if token in self._added:
            added = self._added[token]
            return b"" if added["special"] else str(added["content"]).encode()
        spelling = self._full.id_to_token(token)
        if spelling is None:
            return b""
        if self._byte_level:
            return bytes(BYTE_LETTERS.index(char) for char in spelling)
        raw = re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", spelling)
        return bytes([int(raw[1], 16)]) if raw else spelling.replace("▁", " ").encode()

    @cached_property
    def _byte_level(self) -> bool:
        return '"ByteLevel"' in json.dumps(json.loads(self.json).get("decoder"))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Every control token, the longest first, with the white space that it swallows."""
        spelled = sorted(self._control.values(), key=lambda token: -len(token["content"]))
        alternatives = [
            (r"\s*" if token.get("lstrip") else "")
            + re.escape(token["content"])
            + (r"\s*" if token.get("rstrip") else "")
            for token in spelled
        ]
        return re.compile("|".join(alternatives) or r"(?!)")


def _never_prepend(node: Any) -> None:
    """Only the start of a whole prompt would get SentencePiece's leading space, and a control token is there."""
    if isinstance(node, dict):
        if node.get("type") == "Metaspace" and node.get("prepend_scheme") == "first":
            node["prepend_scheme"] = "never"
        for part in node.get("pretokenizers", []):
            _never_prepend(part)
