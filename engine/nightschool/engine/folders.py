"""Where this user's files lie: the cache (weights; may be deleted at any time) and the config folder.

`NIGHTSCHOOL_HOME` and `NIGHTSCHOOL_CONFIG` override the platform's own places. Nothing is created here.
"""

import os
import sys
from pathlib import Path

NAME = "nightschool"


def cache_home() -> Path:
    """The folder of pulled models and of what can be made again."""
    return _override("NIGHTSCHOOL_HOME") or _platform_cache()


def config_home() -> Path:
    """The folder of the user's own models.toml."""
    return _override("NIGHTSCHOOL_CONFIG") or _platform_config()


def _override(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser().absolute() if value else None


def _platform_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches" / NAME
    return _folder("XDG_CACHE_HOME", ".cache") / NAME


def _platform_config() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support" / NAME
    return _folder("XDG_CONFIG_HOME", ".config") / NAME


def _folder(variable: str, below_home: str) -> Path:
    value = os.environ.get(variable)
    return Path(value) if value and Path(value).is_absolute() else Path.home() / below_home
