"""Every test runs sealed, in a home of its own, and without the colours or settings of whoever runs it.

The seal is an audit hook for good: it holds for the whole session, and for every Python child, which finds it on its
PYTHONPATH. A test that starts a child which may use the network (none does so far) must take both out of its
environment; one that tries the seal itself runs in a child with an environment of its own.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightschool.engine import offline
from nightschool.engine.folders import cache_home
from nightschool.engine.models import load_models

PERSONAL = (
    *(
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "PY_COLORS",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "COLUMNS",
        "LINES",
    ),
    *("NIGHTSCHOOL_MODEL", "NIGHTSCHOOL_MODELS", "NIGHTSCHOOL_CONFIG", "NIGHTSCHOOL_DEBUG"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
REAL_CACHE = cache_home()
"""Where `make test` has pulled the real small model to."""
MODEL = "smollm2-135m"


def pytest_configure() -> None:
    offline.seal()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ready = load_models(cwd=Path(__file__).parent).get(MODEL).ready
    skip = pytest.mark.skip(reason=f"{MODEL} is not here: nightschool models pull {MODEL}")
    for item in items:
        if item.get_closest_marker("model") and not ready:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    homes = tmp_path_factory.mktemp("homes")
    return (homes / str(number) for number in range(10**9))


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest, _homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own; `model` tests alone see the models that were pulled."""
    for name in PERSONAL:
        monkeypatch.delenv(name, raising=False)
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_HOME", str(home / "huggingface"))
    real = request.node.get_closest_marker("model") is not None
    monkeypatch.setenv("NIGHTSCHOOL_HOME", str(REAL_CACHE if real else home / "nightschool"))
    assert offline.sealed() and os.environ[offline.MARK] == ""
