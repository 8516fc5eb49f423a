"""A measured choice is made once, kept with its figures, and survives the next night."""

from dataclasses import replace
from pathlib import Path

from nightschool.engine.models import scripted_spec
from nightschool.loop.measured import settled
from nightschool.loop.workspace import Config, create


def test_the_dtype_is_measured_once_and_kept(tmp_path: Path) -> None:
    space = create(tmp_path / "night", "style:1", Config(suite="style:1"))
    spec = replace(scripted_spec(), dtype="auto", backend="transformers")
    first = settled(space, spec, lambda _: {"float32": 9.0, "bfloat16": 12.0})
    again = settled(space, spec, lambda _: {"float32": 99.0, "bfloat16": 1.0})
    assert first.dtype == again.dtype == "bfloat16"
    kept = space.config().measured[f"{spec.alias}/transformers"]
    assert kept == {"dtype": "bfloat16", "tokens_per_second": {"float32": 9.0, "bfloat16": 12.0}}


def test_a_dtype_that_is_named_is_not_measured(tmp_path: Path) -> None:
    space = create(tmp_path / "night", "style:1", Config(suite="style:1"))
    spec = replace(scripted_spec(), dtype="float32")
    assert settled(space, spec, lambda _: {"bfloat16": 1.0}) == spec
    assert space.config().measured == {}
