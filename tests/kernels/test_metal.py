"""The Metal kernel: what a C++ compiler cannot see of it, and that it is built once."""

from __future__ import annotations

import re
from typing import Any

import mlx.core as mx
import pytest

from nightschool.kernels import metal


def code() -> str:
    """The source without its comments."""
    header, body = metal.source()
    return re.sub(r"//.*", "", f"{header}\n{body}")


def test_only_what_metal_has() -> None:
    found = code()
    for word in (r"\bdouble\b", r"std::", r"#\s*include", r"\bauto\b", r"\bnew\b", r"\blong\s+double\b", r"\bfloat64"):
        assert not re.search(word, found)
    numbers = re.findall(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(\w*)", found)
    assert numbers
    assert set(numbers) == {"f"}  # without the f a number is a double


def test_every_pointer_and_shared_array_has_an_address_space() -> None:
    header, body = metal.source()
    assert not re.search(r"\b(?:float|uint|int|bool|T|Best|Mass)\s*[*&]", code())
    for line in re.findall(r"^.*\w+\[\d+\];", body, re.MULTILINE):
        assert line.strip().startswith("threadgroup ")
    globals_of_header = [line for line in header.splitlines() if re.match(r"\w[\w ]*\s=\s.*;", line)]
    assert globals_of_header
    assert all(line.startswith("constant constexpr ") for line in globals_of_header)


def test_shared_arrays_have_room_for_every_simdgroup() -> None:
    rooms = {int(room) for room in re.findall(r"^threadgroup \w+ \w+\[(\d+)\];", metal.source()[1], re.MULTILINE)}
    assert rooms == {metal.THREADS // 32}


def test_the_body_uses_what_it_is_passed() -> None:
    _, body = metal.source()
    for name in (*metal.NAMES[0], *metal.NAMES[1], "logits_shape", "MASKED", "NORMALISED"):
        assert re.search(rf"\b{name}\b", body), name


def test_barriers_and_reductions_are_met_by_all_threads() -> None:
    _, body = metal.source()
    loop = body[body.index("for (") : body.index("threadgroup float")]
    for word in ("simd_max", "simd_min", "simd_sum", "_of_simdgroup", "barrier"):
        assert word not in loop
    assert "return" not in body


def test_building_the_kernel_reads_what_the_package_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[Any, ...]] = []

    def build(*arguments: Any) -> str:
        built.append(arguments)
        return "kernel"

    monkeypatch.setattr(mx.fast, "metal_kernel", build)
    metal.kernel.cache_clear()
    try:
        assert [metal.kernel(), metal.kernel()] == ["kernel", "kernel"]
    finally:
        metal.kernel.cache_clear()
    (name, inputs, outputs, body, header), *more = built
    assert not more
    assert (name, inputs, outputs) == ("nightschool_sample", *map(list, metal.NAMES))
    assert "gumbel" in header
    assert "threadgroup_position_in_grid" in body
