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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
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
"""What loads a model on this machine, and the extra of this package that brings it."""
SLOW_MLX = "MLX has no GPU here: on a CPU it is some ten times slower than transformers"


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend, and why it is this one."""

    name: str
    reason: str


def choose_backend(spec: ModelSpec | None, requested: str | None = None) -> Choice:
    """The backend for this model (`None`: for any) on this machine."""
    if requested is not None:
        if requested not in PACKAGES:
            raise unknown(requested)
        return Choice(requested, "asked for")
    if spec is not None and spec.backend is not None:
        return Choice(spec.backend, f"{spec.alias} is tied to it")
    if spec is not None and spec.kind == "http":
        return Choice("openai", f"{spec.alias} is on a server, {spec.host}")
    if _apple():
        return _first("mlx", "Apple silicon")
    if _nvidia():
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


def slow(backend: str) -> str | None:
    """Why this backend is a poor choice on this machine, if it is; known without loading it."""
    return SLOW_MLX if backend == "mlx" and not _mlx_gpu() else None


def not_chosen(chosen: str) -> dict[str, str]:
    """Every other backend that a person may ask for, and why it was not picked."""
    return {name: _against(name, chosen) for name in (*EXTRAS, "openai") if name != chosen}


def unknown(backend: str) -> Problem:
    """That there is no such backend, and which there are."""
    known = (*EXTRAS, "openai")
    close = nearest(backend, known)
    hint = f"{close} " if close.startswith("did you mean") else ""
    gpu = {"vllm": "an NVIDIA GPU and "}
    needed = [f"{name} needs {gpu.get(name, '')}{_install(name)}" for name in EXTRAS if missing(name)]
    here = [name for name in known if not missing(name)]
    return Problem(
        f"no backend is called {backend!r}", hint + "; ".join([f"here {_listed(here)} can be used", *needed])
    )


def require(spec: ModelSpec, backend: str) -> None:
    """Refuse, before anything is loaded, a model that this backend cannot load here."""
    _refuse_unwritten(spec, backend)
    if spec.kind == "http" and backend in EXTRAS:
        raise Problem(f"{spec.alias} is on a server, {spec.host}: {backend} has nothing to load", "leave out --backend")
    if lacking := missing(backend):
        here = sorted(
            (name for name in EXTRAS if written(name) and not missing(name)), key=lambda name: bool(slow(name))
        )
        other = f", or --backend {here[0]}, which is installed" if here else ""
        raise Problem(
            f"the {backend} backend needs {' and '.join(lacking)}, which is not installed", _install(backend) + other
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


def _apple() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


def _nvidia() -> bool:
    return sys.platform == "linux" and shutil.which("nvidia-smi") is not None


def _mlx_gpu() -> bool:
    """Whether MLX computes on a GPU here: Apple's, or NVIDIA's with MLX's own package for CUDA."""
    return _apple() or (_nvidia() and any(path.name.startswith("mlx_cuda") for path in _beside("mlx")))


def _beside(package: str) -> Iterator[Path]:
    """What is installed beside a package."""
    found = find_spec(package)
    for place in (found.submodule_search_locations if found else None) or ():
        yield from Path(place).parent.iterdir()


def _install(backend: str) -> str:
    return f'pip install "nightschool[{EXTRAS[backend]}]"'


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _against(name: str, chosen: str) -> str:
    """Why another backend was chosen."""
    if name == "openai":
        return "for a model on a server that you run (docs/servers.md)"
    unfit = "no NVIDIA GPU here" if name == "vllm" and not _nvidia() else slow(name)
    lacking = missing(name)
    absent = f"not installed: {', '.join(lacking)} ({_install(name)})" if lacking else ""
    return "; ".join(filter(None, (unfit, absent))) or f"{chosen} suits this machine better; --backend {name} works too"


def _refuse_unwritten(spec: ModelSpec, backend: str) -> None:
    """Nothing can be loaded, and nothing is worth pulling, for a backend that does not exist yet."""
    if written(backend):
        return
    advice = f"leave out --backend, and `backend` of {spec.alias} in {spec.origin or 'models.toml'}"
    raise Problem(f"{spec.alias}: this version of nightschool has no {backend} backend", advice)
