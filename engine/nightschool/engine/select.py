"""Picks the backend for this machine, says why, and opens the engine.

MLX on Apple silicon, vLLM on CUDA, transformers elsewhere and where this version has no backend for the
device; a model that is tied to a backend, a server's URL and an explicit request go first. A backend is
`nightschool.engine.backends.NAME` with `load(spec, *, width, say) -> Engine`; it is imported only here, when
it is opened; whether it is there at all, and its packages, are looked for without importing them.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nightschool.disk.errors import Problem, nearest

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.models import Models, ModelSpec

PACKAGES = {
    "mlx": ("mlx", "mlx_lm"),
    "vllm": ("vllm",),
    "transformers": ("torch", "transformers"),
    "openai": (),
    "scripted": (),
    "uniform": (),
}
"""Backend -> the packages that it needs."""
EXTRAS = {"mlx": "mlx", "vllm": "cuda", "transformers": "cpu"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend, and why it is this one."""

    name: str
    reason: str


def choose_backend(spec: ModelSpec | None, requested: str | None = None) -> Choice:
    """The backend for this model (`None`: for any) on this machine."""
    if requested is not None:
        if requested not in PACKAGES:
            raise Problem(f"no backend is called {requested!r}", nearest(requested, PACKAGES))
        return Choice(requested, "asked for")
    if spec is not None and spec.backend is not None:
        return Choice(spec.backend, f"{spec.alias} is tied to it")
    if spec is not None and spec.kind == "http":
        return Choice("openai", f"{spec.alias} is on a server, {spec.host}")
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return _first("mlx", "Apple silicon")
    if sys.platform == "linux" and shutil.which("nvidia-smi"):
        return _first("vllm", "an NVIDIA GPU")
    return Choice("transformers", "no Apple or NVIDIA GPU, so it runs on the CPU")


def resolve(models: Models, alias: str, requested: str | None = None) -> tuple[ModelSpec, Choice]:
    """The model as the backend that is chosen for it sees it; a Problem if there is no such backend."""
    entry = next((spec for spec in models.available() if spec.alias == alias), None)
    choice = choose_backend(entry, requested)
    spec = models.get(alias, choice.name)
    _refuse_unwritten(spec, choice.name)
    return spec, choice


def written(backend: str) -> bool:
    """Whether this version of nightschool has the backend."""
    return find_spec(f"nightschool.engine.backends.{backend}") is not None


def missing(backend: str) -> list[str]:
    """The packages that this backend needs and that are not installed."""
    return [package for package in PACKAGES[backend] if find_spec(package) is None]


def require(spec: ModelSpec, backend: str) -> None:
    """Refuse, before anything is loaded, a model that this backend cannot load here."""
    _refuse_unwritten(spec, backend)
    if spec.kind == "http" and backend in EXTRAS:
        raise Problem(f"{spec.alias} is on a server, {spec.host}: {backend} has nothing to load", "leave out --backend")
    if lacking := missing(backend):
        raise Problem(
            f"the {backend} backend needs {' and '.join(lacking)}, which is not installed",
            f'pip install "nightschool[{EXTRAS[backend]}]"',
        )
    if spec.kind == "path" and not spec.ready:
        raise Problem(f"{spec.alias}: there is no model in {spec.folder}", f"mend the source in {spec.origin}")
    if spec.kind == "path" and PACKAGES[backend] and not any(spec.folder.glob("*.safetensors")):
        raise Problem(f"{spec.alias}: there are no weights (*.safetensors) in {spec.folder}", "add them to the folder")
    if not spec.ready:
        raise Problem(f"{spec.alias} is not on this machine yet", f"nightschool models pull {spec.alias}")


def open_engine(
    spec: ModelSpec, *, backend: str | None = None, width: int | None = None, say: Callable[[str], None] | None = None
) -> Engine:
    """Load the model. `width`: the most rows in one batch (`None`: what fits in memory).

    `say` is told, in one line each, what a person should know while the engine works; `None`: the log is.
    """
    name = choose_backend(spec, backend).name
    require(spec, name)
    with _readable(spec):
        engine: Engine = import_module(f"nightschool.engine.backends.{name}").load(spec, width=width, say=say)
    return engine


def measure(spec: ModelSpec, what: str) -> Mapping[str, float]:
    """Tokens a second by "dtype" or "width" on the spec's backend; empty where that backend has nothing to choose."""
    backend = import_module(f"nightschool.engine.backends.{spec.backend}")
    timed: Callable[[ModelSpec], Mapping[str, float]] | None = getattr(backend, f"measure_{what}", None)
    with _readable(spec):
        return timed(spec) if timed else {}


def caches(spec: ModelSpec) -> str | None:
    """How the spec's backend keeps what the model has read, in words; None where there is but one way, or no telling."""
    if spec.backend is None or missing(spec.backend) or not spec.ready:
        return None
    told: Callable[[ModelSpec], str] | None = getattr(
        import_module(f"nightschool.engine.backends.{spec.backend}"), "cache_path", None
    )
    with _readable(spec):
        return told(spec) if told else None


@contextmanager
def _readable(spec: ModelSpec) -> Iterator[None]:
    """Whatever a model library raises for a folder that it cannot make out is the folder's Problem."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        told = str(error).strip().partition("\n")[0] or type(error).__name__
        raise Problem(f"{spec.alias} cannot be loaded: {told}", f"nightschool models check {spec.alias}") from error


def _first(name: str, device: str) -> Choice:
    """The device's own backend, unless it is not written yet, or only transformers is installed."""
    if not written(name):
        return Choice("transformers", f"{device}, but this version of nightschool has no {name} backend")
    if missing(name) and not missing("transformers"):
        extra = EXTRAS[name]
        return Choice("transformers", f'{device}, but {name} is not installed (pip install "nightschool[{extra}]")')
    return Choice(name, device)


def _refuse_unwritten(spec: ModelSpec, backend: str) -> None:
    """Nothing can be loaded, and nothing is worth pulling, for a backend that does not exist yet."""
    if written(backend):
        return
    advice = f"leave out --backend, and `backend` of {spec.alias} in {spec.origin or 'models.toml'}"
    raise Problem(f"{spec.alias}: this version of nightschool has no {backend} backend", advice)
