"""The workspace: where everything of one job lies, and the night's resolved configuration.

On disk as in docs/workspace.md; `config.json` (schema, suite, models, backend, seed, control, settings, table, measured)
marks the folder as a workspace. The module knows paths and configuration, not what the files mean.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from nightschool.disk import files
from nightschool.disk.errors import Problem, nearest
from nightschool.loop.settings import EvolveSettings
from nightschool.loop.suite import materialise
from nightschool.sek.tree import Tree

SCHEMA = 1
MAKE_ONE = "make a workspace: nightschool new DIR --suite style"
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "suite": str,
    "models": dict,
    "backend": (str, type(None)),
    "seed": int,
    "control": str,
    "table": dict,
    "measured": dict,
}
NIGHT_PAGES = ("index.md", "logs.md", "skill-impact.md")
CONTROLS = ("none", "random", "shuffled", "placebo", "nowiki")
_IGNORED = "raw/*\n!raw/sources/\ncandidate/\nstrategy/\njournal.jsonl\nconfig.json\nreport.html\n.lock\n.*.tmp\n"


@dataclass(frozen=True, slots=True)
class Config:
    """What a night runs with; a resumed night keeps it."""

    suite: str
    models: Mapping[str, str] = field(default_factory=dict)
    """Role -> alias."""
    backend: str | None = None
    seed: int = 0
    control: str = "none"
    settings: EvolveSettings = field(default_factory=EvolveSettings)
    table: Mapping[str, Any] = field(default_factory=dict)
    """The suite's [evolve] table when these settings were settled."""
    measured: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, **flags: Any) -> Config:
        """The configuration with the flags that were given (None: not given); settings by their own names."""
        given = {key: value for key, value in flags.items() if value is not None}
        own = {key: given.pop(key) for key in list(given) if key in EvolveSettings.model_fields}
        settings = EvolveSettings.parse({**self.settings.model_dump(exclude_unset=True), **own}, "flags")
        config = replace(self, settings=settings, **given)
        if config.control not in CONTROLS:
            raise Problem(f"unknown control {config.control!r}", nearest(config.control, CONTROLS))
        return config

    def with_table(self, table: Mapping[str, Any]) -> Config:
        """The configuration after a person's edits of [evolve] in suite.toml: they win over older flags."""
        edited = {key for key in {*self.table, *table} if self.table.get(key) != table.get(key)}
        kept = {key: value for key, value in self.settings.model_dump().items() if key not in edited}
        settings = EvolveSettings.parse({**kept, **{key: table[key] for key in edited & {*table}}}, "suite.toml")
        return replace(self, table=dict(table), settings=settings)

    def conflicts(self, other: Config) -> list[str]:
        """Names of the keys in which the two differ, `table` and `measured` aside."""
        mine, theirs = _flat(self), _flat(other)
        return [key for key in mine if mine[key] != theirs.get(key)]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Paths of one workspace."""

    root: Path

    @property
    def suite(self) -> Path:
        """The tasks."""
        return self.root / "suite"

    @property
    def skills(self) -> Path:
        """Accepted skills and nothing else."""
        return self.root / "skills"

    @property
    def candidate(self) -> Path:
        """The skill set that the gate is trying."""
        return self.root / "candidate"

    @property
    def wiki(self) -> Path:
        """Pages, index and logs."""
        return self.root / "wiki"

    @property
    def raw(self) -> Path:
        """Traces and plans, by iteration."""
        return self.root / "raw"

    @property
    def journal(self) -> Path:
        """The truth."""
        return self.root / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the night that runs here."""
        return self.root / ".lock"

    def iteration(self, k: int) -> Path:
        """The machine's own folder of one iteration."""
        return self.raw / f"iter-{k:03d}"

    def config(self) -> Config:
        """The configuration on disk."""
        path = self.root / "config.json"
        record = _json(path)
        if "schema" not in record:
            raise Problem(f"{path} is not a workspace's", MAKE_ONE)
        if record.get("schema") != SCHEMA:
            raise Problem(
                f"{path}: workspace schema {record.get('schema')!r}, this version reads {SCHEMA}",
                "use the version of nightschool that made this workspace, or a newer one",
            )
        known = {field.name for field in fields(Config)}
        odd = sorted(set(record) - known - {"schema"}) + [key for key in ("suite", "settings") if key not in record]
        if odd:
            raise Problem(f"{path}: {odd[0]!r} is unknown or missing", "restore the file from a backup")
        odd = [key for key, kinds in _KINDS.items() if key in record and not isinstance(record[key], kinds)]
        if odd or not all(isinstance(alias, str) for alias in record.get("models", {}).values()):
            raise Problem(f"{path}: {(odd or ['models'])[0]!r} is of another kind", "restore the file from a backup")
        settings = EvolveSettings.parse(record["settings"], str(path))
        return Config(**{key: value for key, value in record.items() if key in known} | {"settings": settings})

    def save(self, config: Config) -> None:
        """Write the configuration."""
        record = {"schema": SCHEMA, **_record(config)}
        files.write_atomic(self.root / "config.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def create(root: Path, suite: str, config: Config) -> Workspace:
    """Make a workspace in `root`; refused when anything that it would write exists, and nothing is left half-made.

    A SEK tree has a wiki/ already, which the night then shares.
    """
    space = Workspace(root)
    pages = space.wiki / "patterns"
    with files.explained(root):
        tree = Tree(root).exists()
    knowledge = (pages, *(space.wiki / name for name in NIGHT_PAGES)) if tree else (space.wiki,)
    own = (root / "config.json", space.suite, space.skills, *knowledge, space.raw, space.journal)
    with files.explained(root):
        taken = [path for path in own if path.exists()]
    if taken:
        raise Problem(f"{taken[0]} exists already", "choose another folder, or go on with `nightschool evolve` there")
    with files.explained(root):
        made = not root.exists()
        root.mkdir(parents=True, exist_ok=True)
    try:
        made_suite = materialise(suite, space.suite)
        ignore = root / ".gitignore"
        if not ignore.exists():
            files.write_atomic(ignore, _IGNORED)
        space.skills.mkdir()
        pages.mkdir(parents=True)
        given = config.settings.model_dump(exclude_unset=True)
        settings = EvolveSettings.parse({**made_suite.settings, **given}, "suite.toml")
        space.save(replace(config, settings=settings, table=made_suite.settings))
    except BaseException:
        for path in (root if made else space.suite, space.skills, knowledge[0]):
            shutil.rmtree(path, ignore_errors=True)
        raise
    return space


def find(start: Path) -> Workspace:
    """The workspace at `start`, or the nearest parent that is one."""
    if not start.is_dir():
        raise Problem(f"there is no folder {start}", MAKE_ONE)
    for folder in (start, *start.resolve().parents):
        if _is_workspace(folder / "config.json"):
            return Workspace(folder)
    raise Problem(f"{start} is not a workspace, nor is any parent", MAKE_ONE)


def _is_workspace(path: Path) -> bool:
    """Whether this config.json is ours; other programs write files of that name too."""
    if not path.is_file():
        return False
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return (path.parent / "journal.jsonl").is_file() or (path.parent / "suite").is_dir()
    return isinstance(record, dict) and "schema" in record and ("settings" in record or "suite" in record)


def _json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(files.read_text(path))
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path}: not JSON ({error})", "restore it from a backup") from None
    if not isinstance(record, dict):
        raise Problem(f"{path}: not a JSON object", "restore it from a backup")
    return record


def _record(config: Config) -> dict[str, Any]:
    return {**asdict(replace(config, settings=EvolveSettings())), "settings": config.settings.model_dump()}


def _flat(config: Config) -> dict[str, Any]:
    record = _record(config)
    for aside in ("table", "measured"):
        record.pop(aside)
    return {**record.pop("settings"), **record}
