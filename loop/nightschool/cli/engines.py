"""From a configuration to engines: roles to aliases, aliases to loaded models, with the process sealed first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.cli import output

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.models import Models
    from nightschool.loop.workspace import Config


def load_models(file: Path | None) -> Models:
    """All models that this place knows."""
    from nightschool.engine.models import load_models as load

    return load(file, Path.cwd())


def roles(models: Models, config: Config) -> dict[str, str]:
    """Role -> alias: the workspace's own choice, else the roles of models.toml, checked to exist."""
    default = {role: getattr(models.roles, role) for role in ("student", "maintainer", "proposer")}
    chosen = {**default, **config.models}
    for alias in chosen.values():
        models.get(alias)
    return chosen


def opener(models: Models, config: Config, *, width: int | None = None) -> Callable[[str], Engine]:
    """Loads an alias on the backend that fits this machine; seals the process before any model library is imported."""
    from nightschool.engine import offline, select

    offline.seal(models.hosts())

    def load(alias: str) -> Engine:
        if alias == "uniform":
            from nightschool.engine.backends.uniform import load as uniform

            return uniform(models.get(config.models.get("student") or models.roles.student))
        spec, choice = select.resolve(models, alias, config.backend)
        output.say(f"loading {alias} with {choice.name}: {choice.reason}")
        return select.open_engine(spec, backend=choice.name, width=width)

    return load
