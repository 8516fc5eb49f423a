"""`nightschool sek register | promote | core | revoke | expire | status | history`: the life of knowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nightschool.cli import output
from nightschool.cli.options import TREE, Json, SekDir

if TYPE_CHECKING:
    from nightschool.sek.record import Event
    from nightschool.sek.views import Life, Status
    from nightschool.sek.work import Done

Tag = Annotated[str, typer.Argument(metavar="TAG", help="The rule's tag, as in API-RATE-001.")]

LONGEST_TITLE = 44
"""Characters of a rule's title in the table: a line then fits a terminal; `history TAG` and --json have all of it."""


def add(app: typer.Typer) -> None:
    """Add these commands to `nightschool sek`."""
    for command in (register, promote, core, revoke, expire, status, history):
        app.command()(command)


def register(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What it is about, in a few words.")],
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="unexpected, workaround, undocumented-api or correction.")
    ] = "unexpected",
    expected: Annotated[str, typer.Option(metavar="TEXT", help="What was expected.")] = "",
    got: Annotated[str, typer.Option(metavar="TEXT", help="What came instead.")] = "",
    where: Annotated[str, typer.Option(metavar="TEXT", help="The file, command or API where it happened.")] = "",
    session: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The agent's session (default: that of today).", envvar="NIGHTSCHOOL_SESSION"
        ),
    ] = "",
    root: SekDir = TREE,
    as_json: Json = False,
) -> None:
    """Draft an entry in memory/inbox.md; a topic that has come up before is promoted to a rule."""
    from nightschool.sek import commands
    from nightschool.sek.tree import Tree

    _tell(commands.register(Tree.find(root), topic, kind, session, expected, got, where), as_json)


def promote(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="The topic of the drafts (default: all that are ripe).")
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="The tag of the new rule (default: from its topic).")
    ] = None,
    root: SekDir = TREE,
    as_json: Json = False,
) -> None:
    """Promote drafts to rules: a topic from two sessions, or with three entries."""
    from nightschool.sek import commands
    from nightschool.sek.tree import Tree

    _tell(commands.promote(Tree.find(root), topic, tag), as_json)


def core(
    tag: Tag,
    line: Annotated[str | None, typer.Option(metavar="TEXT", help="How the rule shall read in Critical Rules.")] = None,
    root: SekDir = TREE,
    as_json: Json = False,
) -> None:
    """Make a rule critical: show the change of L0, and write it after a yes typed at the terminal.

    No option, pipe or script can say yes.
    """
    from nightschool.sek import core as critical
    from nightschool.sek.tree import Tree

    _tell(critical.promote(Tree.find(root), tag, line), as_json)


def revoke(
    tag: Tag,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is logged with the rule's full text.")] = "",
    root: SekDir = TREE,
    as_json: Json = False,
) -> None:
    """Remove a rule everywhere; its text stays in memory/log.jsonl, and the same text is not promoted again.

    A critical rule takes a yes typed at the terminal.
    """
    from nightschool.sek import commands
    from nightschool.sek import core as critical
    from nightschool.sek.rules import check_tag
    from nightschool.sek.tree import Tree
    from nightschool.sek.work import core_tags

    tree = Tree.find(root)
    remove = critical.revoke if check_tag(tag) in core_tags(tree) else commands.revoke
    _tell(remove(tree, tag, reason), as_json)


def expire(root: SekDir = TREE, as_json: Json = False) -> None:
    """Let drafts go that are older than expire_days of wiki/_routing.md and were not confirmed."""
    from nightschool.sek import commands
    from nightschool.sek.tree import Tree

    _tell(commands.expire(Tree.find(root)), as_json, nothing="no draft is too old")


def status(root: SekDir = TREE, as_json: Json = False) -> None:
    """The inbox, the rules by stage, the token tax of every session, and what is suggested."""
    from nightschool.sek import views
    from nightschool.sek.tree import Tree

    found = views.status(Tree.find(root))
    if as_json:
        output.data({"schema": 1, **found.record()})
    else:
        _draw(found)


def history(tag: Tag, root: SekDir = TREE, as_json: Json = False) -> None:
    """A rule's whole life: its drafts, promotion, uses, and end."""
    from nightschool.sek import views
    from nightschool.sek.tree import Tree

    found = views.history(Tree.find(root), tag)
    if as_json:
        output.data({"schema": 1, **found.record()})
    else:
        _recount(found)


def _tell(done: Done, as_json: bool, nothing: str = "nothing to do") -> None:
    if as_json:
        output.data({"schema": 1, **done.record()})
        return
    for line in done.messages:
        typer.echo(line)
    if not done.messages:
        output.say(nothing)


def _draw(found: Status) -> None:
    from nightschool.sek.commands import suggestion

    about = " (estimated: no tokenizer on this machine)" if found.tax.estimated else ""
    always = f", always loaded {found.tax.always}" if found.tax.always else ""
    typer.echo(f"tax: L0 {found.tax.l0} of {found.tax.budget} tokens{always}{about}")
    entries = sum(draft.entries for draft in found.drafts)
    typer.echo(f"inbox: {entries} of {found.limit} drafts")
    if found.drafts:
        rows = [
            (each.topic, each.kind, str(each.entries), str(each.sessions), each.expires or "confirmed")
            for each in found.drafts
        ]
        output.table(("topic", "kind", "entries", "sessions", "expires"), rows)
    counts = {stage: sum(rule.stage == stage for rule in found.rules) for stage in ("core", "validated")}
    told = f"{counts['core']} core, {counts['validated']} validated, {len(found.tombstones)} revoked"
    typer.echo(f"rules: {told}; used: in so many sessions of the last 30 days")
    if found.rules:
        standing = [
            (rule.tag, rule.stage + (" 🆕" if rule.new else ""), str(rule.sessions), _cut(rule.title))
            for rule in found.rules
        ]
        output.table(("tag", "stage", "used", "title"), standing)
    for tag in found.suggestions:
        typer.echo(suggestion(tag))


def _cut(title: str) -> str:
    """The last of the headings that an imported page stands under, cut to fit."""
    last = title.rpartition(" › ")[2]
    return last if len(last) <= LONGEST_TITLE else last[: LONGEST_TITLE - 1].rstrip() + "…"


def _recount(found: Life) -> None:
    place = f" in {found.rule.path}:{found.rule.line}" if found.rule else ""
    typer.echo(f"[{found.tag}] {found.stage}{place}")
    moments = [(event.time, _said(event)) for event in found.events]
    if found.uses:
        first, last = found.uses[0], found.uses[-1]
        moments.append((first.time, f"first given out, in session {first.session}"))
        if last is not first:
            moments.append((last.time, f"given out {len(found.uses)} times so far, last in session {last.session}"))
    for time, said in sorted(moments, key=lambda each: each[0]):
        typer.echo(f"{time}  {said}")


def _said(event: Event) -> str:
    """One event in one line; kept texts in full below it."""
    about = [str(event.data[key]) for key in ("topic", "path", "line", "reason", "what") if event.data.get(key)]
    kept = [str(each.get("text", "")) for each in event.data.get("texts", ())] if event.kind == "revoked" else []
    below = "".join(f"\n    {row}" for text in kept for row in text.rstrip().split("\n"))
    return f"{event.kind.replace('-', ' ')}{': ' if about else ''}{'; '.join(about)}{below}"
