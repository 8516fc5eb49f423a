"""From a configuration to engines: roles to aliases, aliases to loaded models, with the process sealed first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.cli import output
from nightschool.cli.options import ROLES

if TYPE_CHECKING:
    from nightschool.engine.engine import Engine
    from nightschool.engine.models import Models
    from nightschool.loop.workspace import Config, Workspace


def load_models(file: Path | None) -> Models:
    """All models that this place knows."""
    from nightschool.engine.models import load_models as load

    return load(file, Path.cwd())


def roles(models: Models, config: Config) -> dict[str, str]:
    """Role -> alias: the workspace's own choice, else the roles of models.toml; each is known to be loadable here."""
    from nightschool.engine import select
    from nightschool.loop.crew import UNIFORM

    chosen = {role: getattr(models.roles, role) for role in ROLES} | dict(config.models)
    if config.control == "random":
        chosen |= {"maintainer": UNIFORM, "proposer": UNIFORM}
    for alias in sorted({*chosen.values()} - {UNIFORM}):
        spec, choice = select.resolve(models, alias, config.backend)
        select.require(spec, choice.name)
    return chosen


def opener(
    models: Models,
    config: Config,
    space: Workspace,
    *,
    width: int | None = None,
    say: Callable[[str], None] = output.say,
) -> Callable[[str], Engine]:
    """Loads an alias on the backend that fits this machine; seals the process before any model library is imported."""
    from nightschool.engine import offline, select
    from nightschool.loop.crew import UNIFORM
    from nightschool.loop.measured import settled

    offline.seal(models.hosts())

    def load(alias: str) -> Engine:
        if alias == UNIFORM:
            from nightschool.engine.backends.uniform import load as uniform

            student = config.models.get("student") or models.roles.student
            return uniform(select.resolve(models, student, config.backend)[0])
        spec, choice = select.resolve(models, alias, config.backend)
        say(f"loading {alias} with {choice.name}: {choice.reason}")
        if warning := select.slow(choice.name):
            say(warning)
        spec, best = settled(space, spec, select.measure)
        return select.open_engine(spec, backend=choice.name, width=width or best, say=say)

    return load


def together(models: Models, config: Config) -> Callable[[str, str], bool]:
    """Whether the models of two aliases fit into this machine's memory side by side; not when it cannot be told."""
    from nightschool.engine import device, select
    from nightschool.loop.crew import UNIFORM

    def fit(one: str, other: str) -> bool:
        if UNIFORM in (one, other):
            return True
        specs = [select.resolve(models, alias, config.backend)[0] for alias in (one, other)]
        if any(spec.kind == "http" for spec in specs):  # what a server holds is held already
            return True
        known = [spec.weights_gb for spec in specs if spec.weights_gb is not None]
        return len(known) == 2 and device.fits_beside(*known)

    return fit
