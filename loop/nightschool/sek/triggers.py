"""Reads the routing table: YAML -> triggers, strictly, with line numbers.

`wiki/_routing.md` is YAML as a whole, or prose with one fenced `yaml` block:

    bootstrap: AGENTS.md      # L0
    l0_budget: 400            # tokens of L0
    budget: 1500              # tokens that a route may load
    expire_days: 14           # how long a draft lives unconfirmed
    triggers:
      - id: frontend
        keywords: [react, ui component, tsx]
        load: [wiki/design/design-system.md]
        priority: 1           # optional; the higher is loaded first
        by: night             # optional; who wrote it, when it was no person
        always: true          # optional; load for every prompt (so does the id or the keyword `always`)

Scalars are taken as they are written, so `no` and `1.0` are keywords like any other. Edits are routing.py; which page a
text needs is router.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from nightschool.disk.errors import Problem, nearest

Node = Any
"""A node of PyYAML, whose stubs leave out `id` and `flow_style`."""
L0_BUDGET, BUDGET, EXPIRE_DAYS, BOOTSTRAP = 400, 1500, 14, "AGENTS.md"
ALWAYS = "always"
KEYS = ("bootstrap", "l0_budget", "budget", "expire_days", "triggers")
TRIGGER_KEYS = ("id", "keywords", "load", "priority", "by", "always")
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[ \t]*ya?ml[ \t]*\r?\n(?P<body>.*?)^(?P=fence)[`~]*[ \t]*\r?$", re.M | re.S
)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\\]")


@dataclass(frozen=True, slots=True)
class Trigger:
    """When one of the keywords stands in a text, these pages are loaded."""

    id: str
    keywords: tuple[str, ...]
    load: tuple[str, ...]
    priority: int = 0
    by: str | None = None
    always: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class Routing:
    """All of a routing table."""

    triggers: tuple[Trigger, ...] = ()
    l0_budget: int = L0_BUDGET
    budget: int = BUDGET
    expire_days: int = EXPIRE_DAYS
    bootstrap: str = BOOTSTRAP


def parse(text: str, path: str = "wiki/_routing.md") -> Routing:
    """The table, or a Problem with its line."""
    body, start = yaml_part(text, path)
    return _Reader(path, body, text.count("\n", 0, start)).routing()


def yaml_part(text: str, path: str = "wiki/_routing.md") -> tuple[str, int]:
    """The YAML of a routing file, and how many characters stand before it."""
    start = 1 if text.startswith("\ufeff") else 0
    blocks = list(_BLOCK.finditer(text))
    if len(blocks) > 1:
        line = text.count("\n", 0, blocks[1].start()) + 1
        raise Problem(f"{path}:{line}: a second yaml block", "keep one block, with all triggers")
    if blocks:
        return blocks[0]["body"], blocks[0].start("body")
    return text[start:], start


def compose(text: str, path: str, before: int = 0) -> Node | None:
    """The nodes of a YAML text; lines in a Problem count from the start of the file, `before` lines above it."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node: Node = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = before + (mark.line + 1 if mark else 1)
        reason = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise Problem(f"{path}:{line}: broken YAML: {reason}", "mend that line; docs/sek.md shows the form") from error
    except RecursionError as error:
        raise Problem(f"{path}: YAML that is nested too deep", "write triggers as docs/sek.md shows") from error
    return node


class _Reader:
    """Checks the nodes and takes the values out of them."""

    def __init__(self, path: str, text: str, before: int) -> None:
        """`before`: lines of the file above the YAML."""
        self.path, self.text, self.before = path, text, before

    def routing(self) -> Routing:
        root = compose(self.text, self.path, self.before)
        if root is None:
            return Routing()
        found = self._mapping(root, KEYS, "the routing table")
        numbers = {
            key: self._number(found[key], key, least=1)
            for key in ("l0_budget", "budget", "expire_days")
            if key in found
        }
        bootstrap = self._path(found["bootstrap"]) if "bootstrap" in found else BOOTSTRAP
        return Routing(tuple(self._triggers(found.get("triggers"))), **numbers, bootstrap=bootstrap)

    def _triggers(self, node: Node | None) -> Iterator[Trigger]:
        seen: dict[str, int] = {}
        for item in self._items(node, "triggers") if node is not None else []:
            trigger = self._trigger(item)
            if trigger.id in seen:
                what = f"the trigger {trigger.id!r} is already at line {seen[trigger.id]}"
                raise self._wrong(item, what, "merge the two, or rename one")
            seen[trigger.id] = trigger.line
            yield trigger

    def _trigger(self, node: Node) -> Trigger:
        found = self._mapping(node, TRIGGER_KEYS, "a trigger")
        for key in ("id", "load"):
            if key not in found:
                raise self._wrong(node, f"a trigger without {key!r}", "write id, keywords and load")
        name = self._scalar(found["id"], "id")
        if not _ID.fullmatch(name):
            raise self._wrong(found["id"], f"{name!r} is no id", "use letters, digits, . _ and -, at most 64")
        keywords = tuple(map(self._keyword, self._items(found["keywords"], "keywords"))) if "keywords" in found else ()
        load = tuple(map(self._path, self._items(found["load"], "load")))
        if not load:
            raise self._wrong(
                found["load"], f"the trigger {name!r} loads nothing", "name a page, or remove the trigger"
            )
        always = self._flag(found["always"]) if "always" in found else False
        always = always or name == ALWAYS or ALWAYS in keywords
        if not keywords and not always:
            raise self._wrong(
                found.get("keywords", node), f"the trigger {name!r} has no keywords", "write at least one"
            )
        priority = self._number(found["priority"], "priority", least=-1_000_000) if "priority" in found else 0
        by = self._scalar(found["by"], "by") if "by" in found else None
        return Trigger(name, keywords, load, priority, by, always, self._line(node))

    def _mapping(self, node: Node, known: tuple[str, ...], what: str) -> dict[str, Node]:
        if node.id != "mapping":
            raise self._wrong(node, f"{what} is a {_kind(node)}, not keys and values", f"write {known[0]}: ...")
        found: dict[str, Node] = {}
        for key_node, value in node.value:
            key = self._scalar(key_node, "a key")
            if key not in known:
                raise self._wrong(key_node, f"unknown key {key!r}", nearest(key, known))
            if key in found:
                raise self._wrong(key_node, f"the key {key!r} is given twice", "keep one of them")
            found[key] = value
        return found

    def _items(self, node: Node, key: str) -> list[Node]:
        if node.id == "scalar" and _is_null(node):
            return []
        if node.id != "sequence":
            raise self._wrong(node, f"{key!r} is a {_kind(node)}, not a list", f"write {key}: [..., ...]")
        return list(node.value)

    def _scalar(self, node: Node, key: str) -> str:
        if node.id != "scalar":
            raise self._wrong(node, f"{key!r} is a {_kind(node)}, not a word", "write one word or a quoted text")
        value = str(node.value)
        if _is_null(node) or not value.strip():
            raise self._wrong(node, f"{key!r} is empty", "write a word, or leave the key out")
        if _UNSAFE.search(value):
            raise self._wrong(node, f"{key!r} has a control character or a backslash in it", "remove it")
        return value.strip()

    def _keyword(self, node: Node) -> str:
        word = self._scalar(node, "keyword")
        if not any(char.isalnum() for char in word):
            raise self._wrong(node, f"the keyword {word!r} has no letter or digit", "write a word that a person types")
        return word

    def _path(self, node: Node) -> str:
        path = self._scalar(node, "load")
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or not parts or re.match(r"[A-Za-z]:", path):
            raise self._wrong(
                node, f"{path!r} leads out of the tree", "give it from the root, as in wiki/rules/tests.md"
            )
        return str(PurePosixPath(path))

    def _number(self, node: Node, key: str, least: int) -> int:
        value = self._scalar(node, key)
        if not re.fullmatch(r"[+-]?\d{1,9}", value) or int(value) < least:
            raise self._wrong(node, f"{key!r} is {value!r}, which is no number that it can be", "write a whole number")
        return int(value)

    def _flag(self, node: Node) -> bool:
        value = self._scalar(node, ALWAYS).casefold()
        if value not in ("true", "false"):
            raise self._wrong(node, f"{ALWAYS!r} is {value!r}", "write true or false")
        return value == "true"

    def _line(self, node: Node) -> int:
        return self.before + int(node.start_mark.line) + 1

    def _wrong(self, node: Node, what: str, advice: str) -> Problem:
        return Problem(f"{self.path}:{self._line(node)}: {what}", advice)


def _kind(node: Node) -> str:
    return {"mapping": "mapping", "sequence": "list", "scalar": "single value"}.get(node.id, "node")


def _is_null(node: Any) -> bool:
    return str(node.tag) == "tag:yaml.org,2002:null" or (node.value == "" and node.style is None)
