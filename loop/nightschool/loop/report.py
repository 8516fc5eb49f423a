"""What a night came to: the status that people and scripts see. It is the journal's, save for what a person did since.

Keys of the status are stable (docs/workspace.md); what is unknown is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nightschool.disk import files, jsonl
from nightschool.disk.errors import Problem
from nightschool.loop import suite_read, wiki
from nightschool.loop.journal import Event, Journal, add_counts, best_score
from nightschool.loop.workspace import Config, Workspace

REPLIES = ("total", "valid", "retried", "degraded")
SETTLED = ("k", "action", "skill", "score", "accepted", "reason")
EDITS = ("total", "applied", "append", "replace", "insert_after")
TOKENS = {"prompt": "prompt_tokens", "cached": "cached_tokens", "generated": "generated_tokens"}


def status(space: Workspace) -> dict[str, Any]:
    """The last night of this workspace, as `status --json` prints it."""
    config, night = space.config(), Journal(space.journal).night()
    try:
        return _status(space, config, night)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{space.journal}: damaged event ({type(error).__name__}: {error})"
        raise Problem(what, "restore the file from a backup") from error


def _status(space: Workspace, config: Config, night: list[Event]) -> dict[str, Any]:
    result = _first(night, "result")
    baseline = _first(night, "baseline")
    settled = [event for event in night if event["event"] == "settled"]
    start, end = (night[0] if night else None), _first(night, "end")
    gone = _revoked(space, settled)
    usage = add_counts(*(event.get("usage", {}) for event in night))
    return {
        "schema": 1,
        "state": "new" if start is None else "finished" if end else "unfinished",
        "ended": end["reason"] if end else None,
        "suite": config.suite,
        "suite_name": suite_read.name_of(space.suite),
        "control": start["control"] if start else config.control,
        "seed": start["identity"]["seed"] if start else config.seed,
        "gate": start["gate"] if start else config.settings.gate,
        "model": start["roles"]["student"] if start else config.models.get("student"),
        "roles": start["roles"] if start else dict(config.models),
        "backend": start["identity"]["backend"] if start else config.backend,
        "baseline": float(baseline["score"]) if baseline else None,
        "best": best_score(night),
        "planned": start["iterations"] if start else config.settings.iterations,
        "iterations": [{**{key: event[key] for key in SETTLED}, "revoked": event["k"] in gone} for event in settled],
        "replies": _counts(night, "replies", REPLIES),
        "answers": _counts(night, "answers", ("total", "cut")),
        "edits": _counts(night, "edits", EDITS),
        "test": {key: result[key] for key in ("tasks", "first", "final", "delta", "ci95", "p_value")}
        if result
        else None,
        "tokens": {name: usage.get(key, 0) for name, key in TOKENS.items()},
        "injected": _injected(night),
        "seconds": round(sum(event.get("seconds", 0.0) for event in night), 1),
        "stages": _stages(night),
        "resumes": _resumes(space, start),
    }


def _first(night: Sequence[Event], kind: str) -> Event | None:
    return next((event for event in night if event["event"] == kind), None)


def _revoked(space: Workspace, settled: Sequence[Event]) -> set[int]:
    """Iterations whose accepted skill a person took out again; a later one of the same name is another."""
    impact = space.wiki / "skill-impact.md"
    told = wiki.revocations(files.read_text(impact)) if impact.is_file() else {}
    accepted = [event for event in settled if event["accepted"]]
    newest = {event["skill"]: event["k"] for event in accepted}
    gone = {name for name in newest if not (space.skills / name / "SKILL.md").is_file()}
    return {
        event["k"]
        for event in accepted
        if event["skill"] in gone
        or (event["k"] <= told.get(event["skill"], -1) and event["k"] != newest[event["skill"]])
    }


def _counts(night: Sequence[Event], kind: str, keys: Sequence[str]) -> dict[str, int]:
    total = add_counts(*(event.get(kind, {}) for event in night))
    return {key: total.get(key, 0) for key in keys}


def _injected(night: Sequence[Event]) -> float | None:
    """Tokens of skills that a task's prompt held, on average, in the newest run of the standing skills."""
    runs = [event for event in night if event["event"] in ("train", "test") and event.get("answers")]
    if not runs or "injected_tokens" not in runs[-1]["usage"]:
        return None
    return round(float(runs[-1]["usage"]["injected_tokens"] / max(runs[-1]["answers"]["total"], 1)), 1)


def _stages(night: Sequence[Event]) -> Mapping[str, float]:
    """Seconds by stage."""
    stages: dict[str, float] = {}
    for event in night:
        stages[event["event"]] = round(stages.get(event["event"], 0.0) + event.get("seconds", 0.0), 1)
    return stages


def _resumes(space: Workspace, start: Event | None) -> int:
    path = space.raw / "resumes.jsonl"
    if start is None or not path.is_file():
        return 0
    return sum(record.get("k") == start["k"] for _, record in jsonl.read(path))
