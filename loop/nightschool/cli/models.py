"""`nightschool models`: list, pull, add, check and path. `pull` is the one command that uses the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightschool.cli import output
from nightschool.cli.options import Backend, Json, ModelsFile
from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from nightschool.engine.models import Models, ModelSpec

app = typer.Typer(help="The models that can be used here, and their weights.", no_args_is_help=True)
Alias = Annotated[str, typer.Argument(help="A model's name in models.toml.")]


@app.command("list")
def list_models(models_file: ModelsFile = None, backend: Backend = None, as_json: Json = False) -> None:
    """Every model: whether it is here, its roles, the file that names it."""
    from nightschool.engine.models import load_models

    models = load_models(models_file)
    records = [record(models, spec) for spec in views(models, backend)]
    if as_json:
        output.data(records)
        return
    columns = ("model", "here", "GB", "context", "roles", "source", "from")
    output.table(columns, [_row(item) for item in records], width=output.PAGE)


@app.command()
def pull(
    aliases: Annotated[list[str], typer.Argument(metavar="ALIAS...", help="Names in models.toml.")],
    models_file: ModelsFile = None,
    backend: Backend = None,
) -> None:
    """Fetch models into the cache; the one command that uses the network."""
    from nightschool.engine import fetch
    from nightschool.engine.models import load_models
    from nightschool.engine.select import resolve

    models = load_models(models_file)
    for spec in [resolve(models, alias, backend)[0] for alias in aliases]:
        if spec.ready:
            output.say(f"{spec.alias} is here already")
        else:
            output.say(f"pulling {spec.alias} from {spec.source}")
            with output.telling() as progress:
                fetch.pull(spec, progress)
        print(spec.folder if spec.kind != "http" else spec.source)


@app.command()
def add(
    folder: Annotated[Path, typer.Argument(help="A folder with config.json, tokenizer.json and *.safetensors.")],
    alias: Annotated[str | None, typer.Option(help="Its name (default: made of the folder's).")] = None,
    here: Annotated[bool, typer.Option("--here", help="Write ./models.toml, not your config folder's.")] = False,
) -> None:
    """Make a model of a folder of weights, used in place."""
    from nightschool.disk import files
    from nightschool.engine.folders import config_home
    from nightschool.engine.model_folder import alias_of, entry_for
    from nightschool.engine.models_toml import parse

    name = alias or alias_of(folder)
    target = (Path.cwd() if here else config_home()) / "models.toml"
    before = files.read_text(target) if target.is_file() else ""
    if name in parse(before, target).models:
        raise Problem(f"{target} has a model {name!r} already", "choose another name with --alias, or edit that file")
    entry = entry_for(folder, name)
    after = f"{before.rstrip()}\n\n{entry}" if before.strip() else entry
    parse(after, target)
    files.write_atomic(target, after)
    output.say(f"added to {target}:")
    print(entry.rstrip())
    output.say(f"next: {output.command('models', 'check', name)}")


@app.command()
def check(alias: Alias, models_file: ModelsFile = None, backend: Backend = None, as_json: Json = False) -> None:
    """Check a model's files, context, tokenizer, template and thinking.

    Exit code 1: one of them is wrong.
    """
    from nightschool.engine import offline
    from nightschool.engine.model_folder import check as look
    from nightschool.engine.models import load_models
    from nightschool.engine.select import resolve

    models = load_models(models_file)
    offline.seal(models.hosts())
    spec, _ = resolve(models, alias, backend)
    with output.telling() as progress:
        findings = look(spec, progress)
    if as_json:
        output.data([{"name": found.name, "ok": found.ok, "said": found.said} for found in findings])
    else:
        output.table(
            ("", "check", "found"),
            [("ok" if found.ok else "WRONG", found.name, found.said) for found in findings],
        )
    if not all(found.ok for found in findings):
        raise typer.Exit(1)


@app.command()
def path(
    alias: Annotated[str | None, typer.Argument(help="A model (default: the folder of all).")] = None,
    models_file: ModelsFile = None,
    backend: Backend = None,
) -> None:
    """The folder of a model, or of all pulled models."""
    from nightschool.engine.folders import cache_home
    from nightschool.engine.models import load_models
    from nightschool.engine.select import resolve

    print(resolve(load_models(models_file), alias, backend)[0].folder if alias else cache_home() / "models")


def views(models: Models, backend: str | None) -> list[ModelSpec]:
    """Every model as its backend on this machine sees it, or as another does that has it."""
    from nightschool.engine.models_toml import BACKENDS
    from nightschool.engine.select import choose_backend, unknown

    if backend is not None and backend not in BACKENDS:
        raise unknown(backend)
    found: dict[str, ModelSpec] = {}
    for name in (choose_backend(None, backend).name, *BACKENDS):
        for spec in models.available(name):
            found.setdefault(spec.alias, spec if spec.kind != "http" else models.get(spec.alias, "openai"))
    return [found[alias] for alias in models if alias in found]


def record(models: Models, spec: ModelSpec) -> dict[str, Any]:
    """A model as data."""
    from nightschool.engine.models import ROLES

    return {
        "alias": spec.alias,
        "ready": spec.ready,
        "weights_gb": spec.weights_gb,
        "context": spec.context,
        "backend": spec.backend,
        "roles": [role for role in ROLES if getattr(models.roles, role) == spec.alias],
        "source": spec.source,
        "folder": str(spec.folder) if spec.kind != "http" else None,
        "origin": spec.origin,
    }


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    size = f"{item['weights_gb']:g}" if item["weights_gb"] else "-"
    roles = "all" if len(item["roles"]) == 4 else ", ".join(item["roles"])
    cells = (item["alias"], "yes" if item["ready"] else "no", size, str(item["context"]), roles)
    return (*cells, item["source"].partition("#")[0].removesuffix("@main"), _place(item["origin"]))


def _place(origin: str) -> str:
    """A models.toml as a person would write it."""
    from nightschool.engine.models import shipped

    file = Path(origin)
    if file == shipped():
        return "built in"
    if file.is_relative_to(Path.cwd()):
        return f"./{file.relative_to(Path.cwd())}"
    return f"~/{file.relative_to(Path.home())}" if file.is_relative_to(Path.home()) else origin
