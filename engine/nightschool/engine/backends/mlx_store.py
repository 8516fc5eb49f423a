"""Computed prompts on the disk, so that the next process need not compute a long system prompt again.

On disk: `prefixes/TOKENS-MODEL.safetensors` in the cache folder, written by mlx-lm, with metadata that says of which model,
tokenizer, tokens and version of mlx-lm it is. A file whose metadata does not say exactly what is looked for is stale: it
is removed and never used. All of it may be deleted at any time; the oldest go when there is too much.
"""

from __future__ import annotations

import logging
import os
import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nightschool.engine.chat import Chat

log = logging.getLogger(__name__)

SCHEMA = 1
LEAST = 512
"""Tokens: a shorter prompt is computed sooner than read."""
LIMIT = 2_000_000_000
"""Bytes of all files together."""
ABANDONED = 3600.0
"""Seconds after which nobody is still writing a file."""

Caches = list[Any]


class PrefixStore:
    """The stored prompts of one model."""

    def __init__(self, folder: Path, chat: Chat, dtype: str) -> None:
        """`folder` need not exist."""
        self._folder = folder
        self._stamp = {
            "schema": str(SCHEMA),
            "model": chat.spec.fingerprint,
            "weights": _weights(chat.folder),
            "tokenizer": sha256(chat.tokens.json.encode()).hexdigest(),
            "dtype": dtype,
            "mlx-lm": version("mlx-lm"),
        }

    def load(self, tokens: Sequence[int]) -> Caches | None:
        """The caches of exactly these tokens, if they are here and not stale."""
        from mlx_lm.models.cache import load_prompt_cache

        path = self._path(tokens)
        if len(tokens) < LEAST or not path.is_file():
            return None
        try:
            caches, found = load_prompt_cache(str(path), return_metadata=True)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            caches, found = None, {"error": str(error)}
        if found != self._stamp | {"tokens": _digest(tokens)}:
            log.warning("%s is stale and was removed: the prompt is computed again", path)
            _remove(path)
            return None
        with suppress(OSError):  # another process may have pruned it meanwhile
            os.utime(path)
        return list(caches or ())

    def save(self, tokens: Sequence[int], caches: Caches) -> None:
        """Keep the caches of these tokens; a disk that does not take them is no reason to stop."""
        from mlx_lm.models.cache import save_prompt_cache

        if len(tokens) < LEAST or sum(cache.nbytes for cache in caches) > LIMIT:
            return
        path = self._path(tokens)
        new = path.with_name(f".{path.stem}.{os.getpid()}.safetensors")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            save_prompt_cache(str(new), caches, self._stamp | {"tokens": _digest(tokens)})
            with new.open("rb") as file:
                os.fsync(file)
            new.replace(path)
        except (OSError, RuntimeError, ValueError) as error:
            log.warning("a computed prompt was not kept: %s", error)
            _remove(new)
        self._prune()

    def _path(self, tokens: Sequence[int]) -> Path:
        return self._folder / f"{_digest(tokens)[:24]}-{self._stamp['model']}.safetensors"

    def _prune(self) -> None:
        """Remove the oldest files beyond the limit, and what a kill left half-written long ago.

        Other processes do the same at the same time: a file that is gone is no fault.
        """
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("*.safetensors"):
            with suppress(OSError):
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
        kept = 0
        for changed, size, path in sorted(found, reverse=True):
            if path.name.startswith("."):
                if time.time() - changed > ABANDONED:
                    _remove(path)
                continue
            kept += size
            if kept > LIMIT:
                _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _weights(folder: Path) -> str:
    """Differs when the files of a model's folder were written anew, be they of the same size."""
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(folder.glob("*.safetensors"))]
    return sha256(repr(stats).encode()).hexdigest()


def _digest(tokens: Sequence[int]) -> str:
    return sha256(array("q", tokens).tobytes()).hexdigest()
