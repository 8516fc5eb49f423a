"""`nightschool doctor`: this machine, what is installed, which models are here, and what to run next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.kernels import check_kernels
from nightschool.cli.options import Json, ModelsFile
from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from nightschool.engine.models import Models

PACKAGES = (
    "numpy",
    "llguidance",
    "outlines",
    "tokenizers",
    "safetensors",
    "transformers",
    "torch",
    "triton",
    "mlx",
    "mlx-lm",
    "vllm",
)


def doctor(
    models_file: ModelsFile = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Check and time the sampling kernels instead: about a minute.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what this machine can run, and how to go about it.

    Exit code 1: with --kernels, one of them is wrong.
    """
    if kernels:
        check_kernels(as_json)
        return
    record = examine(models_file)
    if as_json:
        output.data(record)
        return
    device, backend = record["device"], record["backend"]
    ready = [item["alias"] for item in record["models"] if item["ready"]]
    installed = [f"{name} {version}" for name, version in record["packages"].items() if version]
    rows = [
        ("accelerator", _accelerator(device["accelerator"])),
        ("power", _power(device["power"])),
        ("backend", f"{backend['name']}: {backend['reason']}"),
        *([("slow", backend["slow"])] if backend["slow"] else []),
        *((f"not {name}", reason) for name, reason in backend["not_chosen"].items()),
        ("missing", ", ".join(backend["missing"]) or "nothing"),
        ("installed", ", ".join(installed)),
        ("models here", ", ".join(ready) or "none"),
        ("student", record["student"]),
        *([("its caches", record["caches"])] if record["caches"] else []),
        ("largest that fits", record["largest"] or "none of those that models.toml names"),
    ]
    output.table(("machine", _machine(device)), rows)
    print("\nnext:")
    for command in record["commands"]:
        print(f"  {command}")


def examine(models_file: Path | None = None) -> dict[str, Any]:
    """Everything that doctor tells, as data."""
    from nightschool.cli.models import record, views
    from nightschool.engine.device import largest_alias_that_fits, this_device
    from nightschool.engine.models import load_models
    from nightschool.engine.select import choose_backend, missing, not_chosen, slow

    models, device = load_models(models_file), this_device()
    seen = views(models, None)
    served = next((spec for spec in seen if spec.alias == models.roles.student and spec.kind == "http"), None)
    choice = choose_backend(served)
    listed = [record(models, spec) for spec in seen]
    largest = largest_alias_that_fits(models, device, choose_backend(None).name)
    chosen = served.alias if served else largest or models.roles.student
    return {
        "device": device.as_json(),
        "backend": {
            "name": choice.name,
            "reason": choice.reason,
            "slow": slow(choice.name),
            "missing": missing(choice.name),
            "not_chosen": not_chosen(choice.name),
        },
        "packages": {name: _version(name) for name in PACKAGES},
        "models": listed,
        "student": models.roles.student,
        "caches": _caches(models),
        "largest": largest,
        "commands": _commands(choice.name, missing(choice.name), chosen, listed),
    }


def _caches(models: Models) -> str | None:
    """How the student's backend keeps what it has read; None where that cannot be told."""
    from nightschool.engine import select

    try:
        return select.caches(select.resolve(models, models.roles.student)[0])
    except Problem:
        return None


def _commands(backend: str, lacking: list[str], alias: str, listed: list[dict[str, Any]]) -> list[str]:
    """What to run to use the model, in order."""
    from nightschool.engine.select import EXTRAS

    ready = any(item["alias"] == alias and item["ready"] for item in listed)
    commands = [f'pip install "nightschool[{EXTRAS[backend]}]"'] if lacking else []
    commands += [] if ready else [output.command("models", "pull", alias)]
    return [*commands, output.command("models", "check", alias), output.command("evolve", "--model", alias)]


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine(device: dict[str, Any]) -> str:
    total, free = _gb(device["memory_total"]), _gb(device["memory_free"])
    return f"{device['system']} {device['machine']}, {device['cores']} cores, {total} of memory, {free} free"


def _accelerator(found: dict[str, Any] | None) -> str:
    if found is None:
        return "none"
    return f"{found['name']} ({found['kind']}), {_gb(found['memory_total'])}, {_gb(found['memory_free'])} free"


def _power(power: dict[str, Any]) -> str:
    told = []
    if power["watts"] is not None:
        told.append(f"{power['watts']:g} W")
    if power["battery"] is not None:
        told.append(f"battery {power['battery']:.0%}")
    if power["plugged"] is not None:
        told.append("plugged in" if power["plugged"] else "on battery")
    return ", ".join(told) or "unknown"


def _gb(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e9:.1f} GB"
