"""The journal: what a night has done, and so what it never does again.

On disk `raw/`'s neighbour `journal.jsonl`: one fsynced JSON object a line, {"schema", "n", "event", "k", ...}. It is the
truth: best score, accepted skills and progress are derived from it and from nothing else. Torn last lines are cut off,
a corrupt middle is refused (nightschool.disk.jsonl).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.disk.jsonl import AppendLog
from nightschool.loop.stats import mean

SCHEMA = 1
OWN = {"schema", "n", "event", "k", "time"}
Event = dict[str, Any]


class Journal:
    """Append-only events of one workspace."""

    def __init__(self, path: Path) -> None:
        """Open, cutting a torn last line; a Problem for a corrupt middle or a newer schema."""
        self._log = AppendLog(path)
        self.events: list[Event] = list(self._log.records())
        for number, event in enumerate(self.events):
            if event.get("schema") != SCHEMA:
                raise Problem(
                    f"{path}:{number + 1}: journal schema {event.get('schema')!r}, this version reads {SCHEMA}",
                    "use the version of nightschool that made this workspace, or a newer one",
                )
            if event.get("n") != number or not isinstance(event.get("event"), str) or type(event.get("k")) is not int:
                raise Problem(f"{path}:{number + 1}: event {number} expected", "restore the file from a backup")

    def append(self, event: str, k: int, **data: Any) -> Event:
        """Add one event; it is on the disk when this returns."""
        if clash := OWN & data.keys():
            raise ValueError(f"{', '.join(sorted(clash))}: the journal's own keys")
        record: Event = {
            "schema": SCHEMA,
            "n": len(self.events),
            "event": event,
            "k": k,
            **data,
            "time": round(time.time(), 3),
        }
        self._log.append(record)
        self.events.append(record)
        return record

    def night(self) -> list[Event]:
        """Events since the last night began, that event first; empty before the first."""
        starts = [n for n, event in enumerate(self.events) if event["event"] == "night"]
        return self.events[starts[-1] :] if starts else []

    def find(self, event: str, k: int) -> Event | None:
        """The event of this kind and iteration in the current night."""
        return next((item for item in self.night() if item["event"] == event and item["k"] == k), None)

    def last(self, event: str, k: int) -> Event | None:
        """The same, of several the newest."""
        return next((item for item in reversed(self.night()) if item["event"] == event and item["k"] == k), None)

    def of(self, event: str) -> list[Event]:
        """All events of this kind in the current night."""
        return [item for item in self.night() if item["event"] == event]

    @property
    def unfinished(self) -> bool:
        """Whether a night began and has not ended."""
        night = self.night()
        return bool(night) and not any(item["event"] == "end" for item in night)

    def last_iteration(self) -> int:
        """The highest iteration number that any night has used; -1 before the first."""
        return max((int(item["k"]) for item in self.events), default=-1)


def best_scores(night: Sequence[Event]) -> dict[str, float] | None:
    """The val scores to beat, by task: of the last baseline, or of what was accepted since; None before the first."""
    kept = {event["k"] for event in night if event["event"] == "settled" and event["accepted"]}
    standing = [
        event["scores"]
        for event in night
        if event["event"] == "baseline" or (event["event"] == "gate" and event["k"] in kept)
    ]
    return dict(standing[-1]) if standing else None


def best_score(night: Sequence[Event]) -> float | None:
    """Their mean."""
    scores = best_scores(night)
    return None if scores is None else mean(tuple(scores.values()))


def add_counts(*counts: Mapping[str, int | None]) -> dict[str, int]:
    """Sum of counters, key by key; unknown (None) counts as nothing."""
    total: dict[str, int] = {}
    for count in counts:
        for key, value in count.items():
            total[key] = total.get(key, 0) + (value or 0)
    return total
