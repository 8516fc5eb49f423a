"""A model in MLX: its weights from a folder, what its caches can do, and what they take of the memory.

Weights are read by mlx-lm, quantised or not; it is never given anything but a folder that exists, for it takes any other
word for the name of a repository to download.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx

from nightschool.disk.errors import MachineProblem, Problem, nearest
from nightschool.engine import probe
from nightschool.engine.models import ModelSpec

TESTED = ("0.32.2", "0.33")
"""From the first version of mlx-lm to the one before which everything was tested."""
DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}
MEASURED = 256
"""Caches grow by so many tokens at a time, so one token shows what so many take."""

CacheKind = Literal["plain", "rotating", "hybrid", "single"]
PATHS: dict[CacheKind, str] = {
    "plain": "keys and values of every token, in batches of any width",
    "rotating": "keys and values of a window of tokens, in batches of any width; a prefix is kept only where it was cut",
    "hybrid": "running states, in batches of any width; a prefix is kept only where it was cut",
    "single": "a kind that mlx-lm cannot batch: one row at a time",
}
"""What each kind of cache allows, for `doctor`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes that the caches of one row take: for each token, and besides."""

    token: int
    row: int


class MLXModel:
    """Weights, and the caches that go with them. A cache is a list, an item a layer, as mlx-lm has it."""

    def __init__(self, spec: ModelSpec) -> None:
        """Load the weights. Problem if the folder holds no model that mlx-lm knows."""
        _check_version()
        self.alias, folder = spec.alias, spec.folder
        self.net = _load(folder, spec)
        self.kind: CacheKind = _kind_of(self.caches())
        self.cost = self._measure()

    @property
    def dtype(self) -> str:
        """Of the weights that are not quantised."""
        from mlx.utils import tree_flatten

        kinds = (leaf.dtype for _, leaf in tree_flatten(self.net.parameters()))
        found = next((kind for kind in kinds if mx.issubdtype(kind, mx.floating)), mx.float32)
        return str(found).removeprefix("mlx.core.")

    def caches(self) -> list[Any]:
        """Empty caches for one row."""
        from mlx_lm.models.cache import make_prompt_cache

        made: list[Any] = make_prompt_cache(self.net)
        return made

    def read(self, tokens: list[int], caches: list[Any], chunk: int) -> None:
        """Let one row's caches take in these tokens, unpadded, `chunk` at a time."""
        for start in range(0, len(tokens), chunk):
            self.net(mx.array([tokens[start : start + chunk]]), cache=caches)
            mx.eval([cache.state for cache in caches])
        mx.clear_cache()

    def release(self) -> None:
        """Free the memory."""
        self.net = None
        gc.collect()
        mx.clear_cache()

    def _measure(self) -> Cost:
        caches = self.caches()
        logits = self.net(mx.array([[0]]), cache=caches)
        mx.eval(logits, [cache.state for cache in caches])
        self.width = int(logits.shape[-1])
        states = sum(part.nbytes for part in _parts(caches) if type(part).__name__ == "ArraysCache")
        return Cost(-(-(sum(cache.nbytes for cache in caches) - states) // MEASURED), states)


def cache_path(folder: Path) -> str:
    """What the caches of the model in this folder allow, in words; no weights are read."""
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import load_model

    caches = make_prompt_cache(load_model(folder, lazy=True)[0])
    return PATHS[_kind_of(caches)]


def detach(caches: list[Any]) -> None:
    """Give caches that were cut out of a batch memory of their own: a slice would keep the whole batch's."""
    for part in _parts(caches):
        if type(part).__name__ == "ArraysCache":
            part.cache = [state if state is None else state * 1 for state in part.cache]
    mx.eval([cache.state for cache in caches])


def room() -> int:
    """Bytes that caches may take beside what is in use."""
    limit = mx.device_info().get("max_recommended_working_set_size")
    if limit is not None and mx.default_device() == mx.Device(mx.gpu):
        return max(0, int(limit) - mx.get_active_memory())
    return int(probe.memory()[1] or 4_000_000_000)


def device() -> str:
    """ "gpu" or "cpu"."""
    return "gpu" if mx.default_device() == mx.Device(mx.gpu) else "cpu"


def _load(folder: Path, spec: ModelSpec) -> Any:
    from mlx_lm.utils import load_model

    if not folder.is_dir():
        raise Problem(f"{spec.alias}: there is no folder {folder}", f"nightschool models pull {spec.alias}")
    net, _ = load_model(folder)
    if spec.dtype != "auto":
        if spec.dtype not in DTYPES:
            raise Problem(f"{spec.alias} has the unknown dtype {spec.dtype!r}", nearest(spec.dtype, DTYPES))
        _cast(net, DTYPES[spec.dtype])
    return net


def _cast(net: Any, dtype: mx.Dtype) -> None:
    """Floating-point weights to another type, but for those that the model itself wants precise."""
    from mlx.utils import tree_map_with_path

    may = getattr(net, "cast_predicate", None) or (lambda path: True)

    def cast(path: str, leaf: mx.array) -> mx.array:
        return leaf.astype(dtype) if mx.issubdtype(leaf.dtype, mx.floating) and may(path) else leaf

    net.update(tree_map_with_path(cast, net.parameters()))
    mx.eval(net.parameters())


def _parts(caches: list[Any]) -> list[Any]:
    """All caches, those that a layer has several of one by one."""
    return [part for cache in caches for part in getattr(cache, "caches", None) or (cache,)]


def _kind_of(caches: list[Any]) -> CacheKind:
    if not all(hasattr(cache, "merge") for cache in caches):
        return "single"
    names = {type(part).__name__ for part in _parts(caches)}
    if "ArraysCache" in names:
        return "hybrid"
    return "rotating" if "RotatingKVCache" in names else "plain"


def _check_version() -> None:
    from packaging.version import Version

    found = version("mlx-lm")
    if not Version(TESTED[0]) <= Version(found) < Version(TESTED[1]):
        raise MachineProblem(
            f"mlx-lm {found} is not one that this version of nightschool was tested with",
            f'pip install "mlx-lm>={TESTED[0]},<{TESTED[1]}"',
        )
