"""Writes nodes as an llguidance Lark grammar.

A leaf becomes one terminal (a regular expression in Rust's syntax, or a list of strings), `Picks` becomes a rule with a
bit set as its parameter, everything else becomes rules. Forcing is switched off in every grammar: it would make
llguidance spell a control token where hostile text has to be copied.
"""

from __future__ import annotations

from functools import lru_cache
from json.encoder import encode_basestring

from nightschool.engine.nodes import Alt, Capped, Chars, Leaf, Lit, Node, Repeat, Seq, Words
from nightschool.engine.picks import Picks

HEADER = '%llguidance {"no_forcing": true}\n'


def render(node: Node) -> str:
    """The whole grammar, with `start` as its first rule."""
    rules = _Rules()
    start = rules.expression(node)
    return HEADER + "".join(f"{line}\n" for line in (f"start: {start}", *rules.lines))


class _Rules:
    """Names and bodies of the rules written so far; a node that occurs twice is written once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[int, str] = {}
        self._alike: dict[str, str] = {}
        self._kept: list[Node] = []

    def expression(self, node: Node) -> str:
        """What stands for the node on the right of a rule."""
        if id(node) not in self._known:
            self._kept.append(node)
            self._known[id(node)] = self._write(node)
        return self._known[id(node)]

    def _write(self, node: Node) -> str:
        match node:
            case Lit() | Leaf(inner=Lit()):
                return _string(node.closing())
            case Seq():
                return f"{self.expression(node.head)} {self.expression(node.tail)}"
            case Alt():
                return self._named("r", " | ".join(self.expression(option) for option in node.options))
            case Repeat():
                high = "" if node.high is None else node.high
                return f"({self.expression(node.part)}){{{node.low},{high}}}"
            case Picks():
                return self._picks(node)
            case Leaf(inner=Words() as words):
                return self._named("T", " | ".join(map(_string, words.words)))
            case _:
                return self._named("T", _terminal(node))

    def _named(self, kind: str, body: str) -> str:
        if body not in self._alike:
            self._alike[body] = f"{kind}{len(self._alike)}"
            self.lines.append(f"{self._alike[body]}: {body}")
        return self._alike[body]

    def _picks(self, node: Picks) -> str:
        name = f"p{len(self._kept)}"
        items = (
            f"{self.expression(option)} {name}x::set_bit({bit}) %if bit_clear({bit})"
            for bit, option in enumerate(node.options)
        )
        self.lines.append(f"{name}::_: " + " | ".join(items))
        more = f'"," {name}::_ %if bit_count_lt(_, {node.high})'
        self.lines.append(f'{name}x::_: "]" %if bit_count_ge(_, {node.low}) | {more}')
        return f"{name}::0x0"


def _terminal(node: Node) -> str:
    """The body of a terminal: one regular expression, or several where a part of it is capped."""
    match node:
        case Leaf():
            return _terminal(node.inner)
        case Seq(tail=Lit()) | Seq(tail=Capped()) | Seq(tail=Seq(head=Capped())):
            return f"{_terminal(node.head)} {_terminal(node.tail)}"
        case Capped():
            return f"(/{regex(node.inner)}/ & /(?s:.{{0,{node.most}}})/)"
        case _:
            return f"/{regex(node)}/"


def regex(node: Node) -> str:
    """A regular node in the syntax of Rust's regex crate, fit to stand between slashes."""
    match node:
        case Leaf():
            return regex(node.inner)
        case Lit():
            return _escaped(node.data)
        case Chars():
            return "[" + "".join(f"{_char(low)}-{_char(high)}" for low, high in node.ranges) + "]"
        case Seq():
            return regex(node.head) + regex(node.tail)
        case Alt():
            return "(" + "|".join(map(regex, node.options)) + ")"
        case Repeat():
            return f"({regex(node.part)}){{{node.low},{'' if node.high is None else node.high}}}"
        case Words():
            return "(" + "|".join(map(_escaped, node.words)) + ")"
        case _:
            raise TypeError(f"{type(node).__name__} is not regular")


@lru_cache(maxsize=16_384)  # one path or span is offered turn after turn
def _string(data: bytes) -> str:
    """A literal, escaped as in JSON; the grammar's lexer takes DEL for a control character too."""
    return encode_basestring(data.decode()).replace("\x7f", "\\u007f")


def _escaped(data: bytes) -> str:
    return "".join(char if char.isalnum() and char.isascii() else _char(ord(char)) for char in data.decode())


def _char(code: int) -> str:
    return f"\\x{{{code:x}}}"
