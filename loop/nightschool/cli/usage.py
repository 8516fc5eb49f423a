"""A command line that cannot be read: one line what is wrong, one line what to do; and the root's own options."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nightschool.disk.errors import Problem, nearest


def problem(error: typer.TyperException) -> Problem | None:
    """The parser's error in two lines; None when it only asks for the help, which is then printed."""
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context else "nightschool"
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help())
        return None
    what = str(getattr(error, "message", "") or "").split(" (Possible")[0].split(". Did you mean")[0].rstrip(".")
    known = _known(error, context)
    if known is None:
        what = getattr(error, "format_message", lambda: str(error))().rstrip(".")
        return Problem(_lowered(what), f"{path} --help")
    name = getattr(error, "option_name", None) or what.rpartition("'")[0].rpartition("'")[2]
    close = nearest(name, known)
    return Problem(_lowered(what), close if close.startswith("did you mean") else f"{path} --help")


def _known(error: typer.TyperException, context: Any) -> list[str] | None:
    """The names of which one was meant, if a name is what is wrong."""
    if context is None:
        return None
    if type(error).__name__ == "NoSuchOption":
        return [name for param in context.command.params for name in (*param.opts, *param.secondary_opts)]
    if hasattr(context.command, "commands") and "No such command" in str(error):
        return list(context.command.commands)
    return None


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"nightschool {version('nightschool')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A local model learns your job overnight, and you can trust the result in the morning."""
