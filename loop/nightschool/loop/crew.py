"""The crew: one engine a role. Roles of one alias share an engine; a model that does not fit beside another is unloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nightschool.disk.errors import MachineProblem
from nightschool.engine.engine import Engine
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, Message, Request
from nightschool.loop.meter import Meter

Opener = Callable[[str], Engine]
UNIFORM = "uniform"


class Interrupted(Exception):
    """Ctrl-C: the night stops at this step and can be resumed."""


class Crew:
    """Engines by role, opened when first needed. `stop` makes every engine raise Interrupted at its next step."""

    def __init__(
        self, roles: Mapping[str, str], opener: Opener, *, together: Callable[[str, str], bool] = lambda a, b: True
    ) -> None:
        """`roles` maps role to alias; `opener` loads an alias; `together` tells whether two fit side by side."""
        self.roles = dict(roles)
        self._opener = opener
        self._together = together
        self._open: dict[str, Engine] = {}
        self._met: dict[str, Engine] = {}
        """Every engine so far; one that was closed still knows its model, and counts."""
        self.stopping = False

    def engine(self, role: str) -> Engine:
        """The role's engine, loaded if need be; it stops at a step when `stopping` is set."""
        alias = self.roles[role]
        if alias not in self._open:
            for other in [name for name in self._open if not self._together(alias, name)]:
                self._open.pop(other).close()
            self._open[alias] = self._again(alias, self._opener(alias))
            self._met[alias] = self._open[alias]
        return _Stoppable(self._open[alias], self)

    def _again(self, alias: str, engine: Engine) -> Engine:
        """The engine, if its model is the one that the alias had before: a server may come back with another."""
        before = self._met.get(alias, engine).model.fingerprint
        if engine.model.fingerprint == before:
            return engine
        engine.close()
        raise MachineProblem(
            f"{alias} is another model than when this night began", "load that one again; the night can be resumed"
        )

    def model(self, role: str) -> ModelSpec:
        """The model behind a role."""
        return self._meet(role).model

    def meter(self, role: str) -> Meter:
        """The role's token counter."""
        model = self.model(role)
        thinks = model.thinking is not None
        return Meter(lambda messages: self._meet(role).count(messages), model.context, model.sampling, thinks)

    def facts(self, role: str) -> dict[str, Any]:
        """What computed a trace: backend, dtype, device, width, versions (empty where an engine does not tell)."""
        return dict(self.engine(role).facts())

    def _meet(self, role: str) -> Engine:
        """The role's engine, open or closed: to look at a model must not unload the one that is at work."""
        if self.roles[role] not in self._met:
            self.engine(role)
        return self._met[self.roles[role]]

    def restart(self, role: str) -> None:
        """Close a failed engine; the next use loads it again."""
        engine = self._open.pop(self.roles[role], None)
        if engine is not None:
            engine.close()

    def close(self) -> None:
        """Unload everything."""
        for engine in self._open.values():
            engine.close()
        self._open.clear()


class _Stoppable:
    """An engine that checks for Ctrl-C before every step."""

    def __init__(self, engine: Engine, crew: Crew) -> None:
        self._engine, self._crew = engine, crew
        self.model = engine.model
        self.batch_invariant = engine.batch_invariant

    def submit(self, request: Request) -> int:
        return self._engine.submit(request)

    def step(self) -> list[tuple[int, Completion]]:
        if self._crew.stopping:
            raise Interrupted
        return self._engine.step()

    def cancel(self, ticket: int) -> None:
        self._engine.cancel(ticket)

    def capacity(self) -> int:
        return self._engine.capacity()

    def count(self, messages: Sequence[Message]) -> int:
        return self._engine.count(messages)

    def facts(self) -> Mapping[str, object]:
        return self._engine.facts()

    def close(self) -> None:
        self._engine.close()
