"""What a check of the linter says: where, what is wrong, why it matters, and what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "note"]
ORDER: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of one file that is safe to make without asking."""

    path: str
    edit: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. Errors fail the run, warnings are for a person to judge, notes only tell."""

    path: str
    line: int
    code: str
    message: str
    why: str
    advice: str
    level: Level = "error"
    fix: Fix | None = None

    @property
    def place(self) -> str:
        """file:line"""
        return f"{self.path}:{self.line}"

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "path": self.path,
            "line": self.line,
            "code": self.code,
            "level": self.level,
            "message": self.message,
            "why": self.why,
            "fix": self.advice,
            "fixable": self.fix is not None,
        }


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, then by place."""
    return tuple(sorted(findings, key=lambda each: (ORDER.index(each.level), each.path, each.line, each.code)))
