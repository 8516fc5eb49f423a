"""The routing table `wiki/_routing.md`: read it (triggers.py tells its form), and edit it without touching another byte.

An edit finds the lines of a node with the YAML parser and changes those; comments, order, quotes, line ends and prose
around the block stay. What it has made is read again before it is returned. Writing the file is left to others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from nightschool.sek.triggers import ALWAYS, Node, Routing, Trigger, compose, parse, yaml_part

__all__ = ["ALWAYS", "Routing", "Trigger", "parse", "rendered", "with_trigger", "without_page"]

_PLAIN = re.compile(r"[^\W\d_][\w./+-]*(?: [\w./+-]+)*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def with_trigger(text: str, trigger: Trigger) -> str:
    """The table with `trigger` after all others, or in the place of the one with its id."""
    body, start = yaml_part(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    items, node = _items(body)
    same = next((item for item in items if _value(item, "id") == trigger.id), None)
    if node is None or not items:
        edited = _begun(body, node, trigger, newline)
    elif node.flow_style:
        first, last = (same or items[-1]).start_mark.index, (same or items[-1]).end_mark.index
        edited = (
            body[:first] + _flow(trigger) + body[last:] if same else body[:last] + ", " + _flow(trigger) + body[last:]
        )
    else:
        indent = node.start_mark.column
        block = _block(trigger, indent, newline)
        first, last = _lines_of(body, same) if same else (_lines_of(body, items[-1])[1],) * 2
        edited = _spliced(body, first, last, block, newline)
    expected = [old for old in parse(text).triggers if old.id != trigger.id]
    position = len(expected) if same is None else [_value(item, "id") for item in items].index(trigger.id)
    expected.insert(position, trigger)
    return _checked(text, text[:start] + edited + text[start + len(body) :], expected)


def without_page(text: str, page: str) -> str:
    """The table with `page` taken out of every `load`; a trigger that would load nothing goes."""
    page = str(PurePosixPath(page))
    expected = [_without(trigger, page) for trigger in parse(text).triggers]
    while True:
        body, start = yaml_part(text)
        items, node = _items(body)
        hit = next((item for item in items if page in _loads(item)), None)
        if hit is None or node is None:
            return _checked(text, text, [trigger for trigger in expected if trigger.load])
        text = text[:start] + _one_less(body, node, items, hit, page) + text[start + len(body) :]


def rendered(routing: Routing) -> str:
    """A new table, whole."""
    lines = [
        "# SEK routing (L1): which pages to load for which words. nightschool route TEXT shows what it does.",
        f"bootstrap: {_word(routing.bootstrap)}",
        f"l0_budget: {routing.l0_budget}",
        f"budget: {routing.budget}",
        f"expire_days: {routing.expire_days}",
        "triggers:" if routing.triggers else "triggers: []",
    ]
    return "\n".join(lines) + "\n" + "".join(_block(trigger, 2, "\n") for trigger in routing.triggers)


def _one_less(body: str, node: Node, items: Sequence[Node], hit: Node, page: str) -> str:
    """The YAML with one mention of the page gone from the trigger `hit`."""
    load = next(value for key, value in hit.value if key.value == "load")
    keep = [item.value for item in load.value if _normal(item.value) != page]
    newline = "\r\n" if "\r\n" in body else "\n"
    if keep and load.flow_style:
        return body[: load.start_mark.index] + _list(keep) + body[load.end_mark.index :]
    if keep:
        gone = next(item for item in load.value if _normal(item.value) == page)
        dash = body.rfind("-", 0, gone.start_mark.index)
        first, last = body.rfind("\n", 0, dash) + 1, _line_end(body, gone.end_mark.index)
        if body[first:dash].strip():  # `- load: - x` cannot be, but `load:` may share a line with its first item
            first = dash
        return body[:first] + body[last:]
    if node.flow_style:
        rest = [item for item in items if item is not hit]
        inner = ", ".join(body[item.start_mark.index : item.end_mark.index] for item in rest)
        return body[: node.start_mark.index] + f"[{inner}]" + body[node.end_mark.index :]
    first, last = _lines_of(body, hit)
    if len(items) > 1:
        return _spliced(body, first, last, "", newline)
    key = body.rfind(":", 0, node.start_mark.index) + 1
    return body[:key] + " []" + _spliced(body, first, last, "", newline)[key:]


def _items(body: str) -> tuple[list[Node], Node | None]:
    """The nodes of the triggers, and the node of their list."""
    root = compose(body, "wiki/_routing.md")
    if root is None:
        return [], None
    node = next((value for key, value in root.value if key.value == "triggers"), None)
    return (list(node.value) if node is not None and node.id == "sequence" else []), node


def _begun(body: str, node: Node | None, trigger: Trigger, newline: str) -> str:
    """The first trigger of a table: after `triggers:`, whatever stands there now, or at the end."""
    block = _block(trigger, 2, newline)
    if node is None:
        lead = body if not body or body.endswith("\n") else body + newline
        return f"{lead}triggers:{newline}{block}"
    end = node.end_mark.index if node.id == "sequence" or node.value else node.start_mark.index
    key = body.rfind(":", 0, node.start_mark.index + 1) + 1
    line = _line_end(body, end)
    comment = body[end:line].rstrip("\r\n").rstrip()
    return body[:key] + (f" {comment.strip()}" if comment.strip() else "") + newline + block + body[line:]


def _lines_of(body: str, item: Node) -> tuple[int, int]:
    """From the dash of a block item's line to the end of its last line of content."""
    dash = body.rfind("-", 0, item.start_mark.index)
    return body.rfind("\n", 0, dash) + 1, _line_end(body, _content_end(item))


def _content_end(node: Node) -> int:
    """Where the content of a node ends: a block's own mark lies behind the comments that follow it."""
    if node.id == "scalar" or node.flow_style:
        return int(node.end_mark.index)
    inner = [part for pair in node.value for part in pair] if node.id == "mapping" else node.value
    return max(map(_content_end, inner), default=int(node.end_mark.index))


def _line_end(body: str, index: int) -> int:
    found = body.find("\n", index)
    return len(body) if found < 0 else found + 1


def _spliced(body: str, first: int, last: int, block: str, newline: str) -> str:
    head = body[:first]
    if block and head and not head.endswith("\n"):
        head += newline
    return head + block + body[last:]


def _block(trigger: Trigger, indent: int, newline: str) -> str:
    lines = [f"- id: {_word(trigger.id)}"]
    lines += [f"  {key}: {value}" for key, value in _pairs(trigger)]
    return "".join(" " * indent + line + newline for line in lines)


def _flow(trigger: Trigger) -> str:
    return "{" + ", ".join([f"id: {_word(trigger.id)}", *(f"{key}: {value}" for key, value in _pairs(trigger))]) + "}"


def _pairs(trigger: Trigger) -> list[tuple[str, str]]:
    pairs = [("keywords", _list(trigger.keywords))] if trigger.keywords else []
    pairs.append(("load", _list(trigger.load)))
    if trigger.priority:
        pairs.append(("priority", str(trigger.priority)))
    if trigger.by:
        pairs.append(("by", _word(trigger.by)))
    if trigger.always and trigger.id != ALWAYS and ALWAYS not in trigger.keywords:
        pairs.append((ALWAYS, "true"))
    return pairs


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(_word, words)) + "]"


def _word(word: str) -> str:
    plain = _PLAIN.fullmatch(word) and word.casefold() not in _RESERVED
    return word if plain else json.dumps(word, ensure_ascii=False)


def _value(item: Node, key: str) -> str | None:
    return next((str(value.value).strip() for name, value in item.value if name.value == key), None)


def _loads(item: Node) -> list[str]:
    return [_normal(value.value) for name, nodes in item.value if name.value == "load" for value in nodes.value]


def _normal(path: str) -> str:
    return str(PurePosixPath(path.strip()))


def _without(trigger: Trigger, page: str) -> Trigger:
    return replace(trigger, load=tuple(path for path in trigger.load if path != page))


def _checked(before: str, after: str, expected: Sequence[Trigger]) -> str:
    """`after`, which must say what it was edited to say."""
    found = parse(after)
    meant = replace(parse(before), triggers=tuple(replace(trigger, line=0) for trigger in expected))
    if replace(found, triggers=tuple(replace(trigger, line=0) for trigger in found.triggers)) != meant:
        raise AssertionError("an edit of the routing table went wrong; nothing was written")
    return after
