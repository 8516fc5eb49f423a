"""`nightschool trace`: one trace in full, or the list of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import HERE, Dir, Json


def trace(
    identity: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="For example iter-003/train/TASK; leave it out to list them."),
    ] = None,
    folder: Dir = HERE,
    as_json: Json = False,
) -> None:
    """One trace: what was asked, answered, and how it was graded."""
    from nightschool.disk.errors import Problem, nearest
    from nightschool.loop import traces
    from nightschool.loop.workspace import find

    if identity is not None and Path(identity).is_dir():
        folder, identity = Path(identity), None
    space = find(folder)
    known = sorted(str(path.relative_to(space.raw).with_suffix("")) for path in space.raw.glob("iter-*/*/*.json"))
    if identity is None:
        if not known and not as_json:
            output.say("there are no traces yet")
        output.data(known) if as_json else print("".join(f"{name}\n" for name in known), end="")
        return
    if identity not in known:
        close = nearest(identity, known)
        raise Problem(f"no trace {identity!r}", close if close.startswith("did") else "`nightschool trace` lists them")
    found = traces.read(space.raw, identity)
    if as_json:
        output.data(asdict(found))
        return
    for message in found.messages:
        print(f"[{message['role']}]\n{message['content']}\n")
    for step in found.steps:
        print(f"[{step.action}] {dict(step.args)}\n{step.observation}\n")
    print(f"[answer]\n{found.answer}\n\n[expected]\n{found.expected}\n\n[score] {found.score:.3f}  {found.reason}")
