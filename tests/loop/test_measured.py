"""A measured choice is made once, kept with its figures, and survives the next night."""

from dataclasses import replace
from pathlib import Path

from nightschool.engine.models import scripted_spec
from nightschool.loop.measured import Measure, settled
from nightschool.loop.workspace import Config, create


def only(choice: str, figures: dict[str, float]) -> Measure:
    """A backend that has one thing to choose."""
    return lambda spec, what: figures if what == choice else {}


def test_the_dtype_is_measured_once_and_kept(tmp_path: Path) -> None:
    space = create(tmp_path / "night", "style:1", Config(suite="style:1"))
    spec = replace(scripted_spec(), dtype="auto", backend="transformers")
    first, width = settled(space, spec, only("dtype", {"float32": 9.0, "bfloat16": 12.0}))
    again, _ = settled(space, spec, only("dtype", {"float32": 99.0, "bfloat16": 1.0}))
    assert width is None
    assert first.dtype == again.dtype == "bfloat16"
    kept = space.config().measured[f"{spec.alias}/transformers"]
    assert kept == {"dtype": "bfloat16", "tokens_per_second": {"float32": 9.0, "bfloat16": 12.0}}


def test_a_dtype_that_is_named_is_not_measured(tmp_path: Path) -> None:
    space = create(tmp_path / "night", "style:1", Config(suite="style:1"))
    spec = replace(scripted_spec(), dtype="float32")
    assert settled(space, spec, only("dtype", {"bfloat16": 1.0})) == (spec, None)
    assert space.config().measured == {}


def test_the_width_is_measured_once_and_kept(tmp_path: Path) -> None:
    space = create(tmp_path / "night", "style:1", Config(suite="style:1"))
    spec = replace(scripted_spec(), dtype="float32", backend="mlx")
    assert settled(space, spec, only("width", {"1": 5.0, "2": 4.0, "8": 20.0})) == (spec, 8)
    assert settled(space, spec, only("width", {"1": 50.0})) == (spec, 8)
    assert space.config().measured[f"{spec.alias}/mlx/width"]["tokens_per_second"]["2"] == 4.0
