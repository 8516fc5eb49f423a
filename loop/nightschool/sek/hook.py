"""The prompt-submit hook in Claude Code's settings: put in beside what is there, and taken out again without a trace.

Settings are one JSON file, `.claude/settings.json` of the project unless another is named. Two entries are ours: `sek
context` at every prompt, and at a session's start after its context was cleared or compacted, so that pages are given
anew. Before the first change the file is copied to `settings.json.before-nightschool`. When the hook is removed from a file
that is as it was installed, that copy is put back byte for byte; one that was edited since loses our entries and no more.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

from nightschool.disk.errors import Problem
from nightschool.disk.files import explained, read_text, write_atomic
from nightschool.disk.system import sync

SETTINGS = ".claude/settings.json"
COPY = ".before-nightschool"
SECONDS = 10
"""After which the agent goes on without us."""
_OURS = re.compile(r"(?:nightschool(?:\.cli)?[\"']?) sek context$")


def command() -> str:
    """How the agent calls us: by name, or, if the name is not on the path, by the Python that runs this."""
    return (
        "nightschool sek context"
        if shutil.which("nightschool")
        else f'"{sys.executable}" -m nightschool.cli sek context'
    )


def install(file: Path, call: str | None = None) -> bool:
    """Put the hook in; whether anything has changed."""
    before = read_text(file) if file.exists() else None
    settings = _parsed(before, file)
    merged = _with_hook(settings, call or command(), file)
    if merged == settings:
        return False
    text = _dumped(merged, before)
    if before is not None and not _has_hook(settings):
        write_atomic(file.with_name(file.name + COPY), before)
    write_atomic(file, text)
    return True


def remove(file: Path) -> bool:
    """Take the hook out; whether it was in."""
    if not file.exists():
        return False
    now = read_text(file)
    settings = _parsed(now, file)
    if not _has_hook(settings):
        return False
    copy = file.with_name(file.name + COPY)
    original = read_text(copy) if copy.exists() else None
    without = _without_hook(settings)
    if original is not None and without == _without_hook(_parsed(original, copy)):
        write_atomic(file, original)
    elif without or original is not None:
        write_atomic(file, _dumped(without, now))
    else:
        _unlink(file)
    if copy.exists():
        _unlink(copy)
    return True


def _with_hook(settings: dict[str, Any], call: str, file: Path) -> dict[str, Any]:
    """The settings with our two entries, each once."""
    merged = _without_hook(settings)
    hooks = merged.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise Problem(f'{file}: "hooks" is not an object', "mend it, or remove it, then install again")
    for event, matcher in (("UserPromptSubmit", None), ("SessionStart", "clear|compact")):
        entry: dict[str, Any] = {} if matcher is None else {"matcher": matcher}
        entry["hooks"] = [{"type": "command", "command": call, "timeout": SECONDS}]
        entries = hooks.setdefault(event, [])
        if not isinstance(entries, list):
            raise Problem(f'{file}: "hooks.{event}" is not a list', "mend it, or remove it, then install again")
        entries.append(entry)
    return merged


def _without_hook(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without our entries, and without what is empty only since then."""
    left = deepcopy(settings)
    hooks = left.get("hooks")
    if not isinstance(hooks, dict) or not _has_hook(settings):
        return left
    for event, entries in list(hooks.items()):
        if not isinstance(entries, list) or not any(map(_is_ours, entries)):
            continue
        kept = []
        for entry in entries:
            if _is_ours(entry):
                others = [hook for hook in entry["hooks"] if not _calls_us(hook)]
                if not others:
                    continue
                entry["hooks"] = others
            kept.append(entry)
        if kept:
            hooks[event] = kept
        else:
            del hooks[event]
    if not hooks:
        del left["hooks"]
    return left


def _has_hook(settings: dict[str, Any]) -> bool:
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return False
    return any(_is_ours(entry) for entries in hooks.values() if isinstance(entries, list) for entry in entries)


def _is_ours(entry: Any) -> bool:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    return isinstance(hooks, list) and any(map(_calls_us, hooks))


def _calls_us(hook: Any) -> bool:
    return isinstance(hook, dict) and _OURS.search(str(hook.get("command", ""))) is not None


def _parsed(text: str | None, file: Path) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        settings = json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise Problem(
            f"{file}:{line}: not JSON: {getattr(error, 'msg', error)}", "mend it; nothing was changed"
        ) from error
    if not isinstance(settings, dict):
        raise Problem(f"{file}: not a JSON object", "mend it; nothing was changed")
    return settings


def _dumped(settings: dict[str, Any], like: str | None) -> str:
    """JSON, indented as the file was; a Problem for a number that JSON cannot spell, as 1e400 becomes."""
    found = re.search(r"^([ \t]+)\S", like or "", re.M)
    try:
        return json.dumps(settings, ensure_ascii=False, indent=found[1] if found else 2, allow_nan=False) + "\n"
    except ValueError as error:
        raise Problem(
            "the settings have a number that that JSON cannot spell", "mend it; nothing was changed"
        ) from error


def _unlink(file: Path) -> None:
    with explained(file):
        file.unlink()
        sync(file.parent)
