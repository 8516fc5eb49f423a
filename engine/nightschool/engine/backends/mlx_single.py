"""One row at a time, for models whose caches mlx-lm cannot batch; in the place of its BatchGenerator.

It does what that does, for a batch of one: the same model, the same shared sampler, the same responses.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from nightschool.engine.backends.mlx_prefix import CHUNK
from nightschool.engine.backends.mlx_rows import TaggedModel
from nightschool.engine.backends.mlx_sampler import SharedSampler


@dataclass(frozen=True, slots=True)
class Progress:
    """A segment of the prompt was read."""

    uid: int
    end_of_segment: bool
    end_of_prompt: bool


@dataclass(frozen=True, slots=True)
class Spoken:
    """A token was drawn."""

    uid: int
    token: int


class SingleGenerator:
    """At most one row."""

    def __init__(self, model: TaggedModel, sampler: SharedSampler) -> None:
        """Nothing to do yet."""
        self.stream = mx.default_stream(mx.default_device())
        self._model, self._sampler = model, sampler
        self._uid = -1
        self._caches: list[Any] = []
        self._segments: list[list[int]] = []
        self._tokens: list[int] = []
        self._next: mx.array | None = None

    def insert_segments(
        self, segments: list[list[list[int]]], *, max_tokens: list[int], caches: list[Any], all_tokens: list[list[int]]
    ) -> list[int]:
        """Begin the row; its end is the caller's to tell."""
        self._uid += 1
        self._segments, self._tokens, self._next = [list(part) for part in segments[0]], all_tokens[0], None
        self._caches = copy.deepcopy(caches[0])
        return [self._uid]

    def next(self) -> tuple[list[Progress], list[Spoken]]:
        """Read a segment of the prompt, or draw a token."""
        if self._next is None:
            return [self._read()], []
        token: Any = self._next.item()
        self._tokens.append(token)
        self._draw([token])
        return [], [Spoken(self._uid, token)]

    def extract_cache(self, uids: list[int]) -> dict[int, tuple[list[Any], list[int]]]:
        """What the caches hold, and the tokens that it stands for."""
        return {uid: (copy.deepcopy(self._caches), list(self._tokens)) for uid in uids}

    def remove(self, uids: list[int]) -> None:
        """The row is over."""
        self._caches, self._next = [], None

    def close(self) -> None:
        """Nothing is held."""

    def _read(self) -> Progress:
        segment, last = self._segments.pop(0), not self._segments
        body = segment[:-1] if last else segment
        for start in range(0, len(body), CHUNK):
            self._model(mx.array([body[start : start + CHUNK]]), self._caches)
            mx.eval([cache.state for cache in self._caches])
        self._tokens += segment
        if last:
            self._draw(segment[-1:])
        return Progress(self._uid, True, last)

    def _draw(self, token: list[int]) -> None:
        logits = self._model(mx.array([token]), self._caches)[:, -1, :]
        self._next = self._sampler(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
        mx.async_eval(self._next)
