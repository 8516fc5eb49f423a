"""Bounded languages of UTF-8 bytes: what a reply may be, as data.

A node knows the length of its longest and of its shortest member in bytes, a shortest member (`closing`), and the
node that is left once a byte has been read (`after`: the derivative of the language). `worst` bounds from above the
shortest ending of any state that reading can lead to. Nodes are immutable and compared by identity. Build them with
the functions at the end, which keep them small: `NOTHING`, which has no member, never hides inside another node.
`picks.py` adds arrays without repetition, `lark.py` writes nodes as grammars, `terms.py` and `pattern.py` build them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from nightschool.engine.utf8 import Ranges, Span, following, ranges, width

Size = int | float
"""A count of bytes; `math.inf` where there is no bound (or no member)."""


class Node(ABC):
    """A language of byte strings."""

    __slots__ = ("longest", "shortest", "worst")

    def __init__(self, shortest: Size, longest: Size, worst: Size) -> None:
        self.shortest = shortest
        self.longest = longest
        self.worst = worst

    @abstractmethod
    def after(self, byte: int) -> Node:
        """What may follow `byte`; `NOTHING` if no member begins with it."""

    @abstractmethod
    def closing(self) -> bytes:
        """A shortest member, always the same one."""


class Lit(Node):
    """Exactly these bytes."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data), len(data), len(data))
        self.data = data

    def after(self, byte: int) -> Node:
        return Lit(self.data[1:]) if self.data[:1] == bytes((byte,)) else NOTHING

    def closing(self) -> bytes:
        return self.data


class _Nothing(Node):
    """The language without members."""

    __slots__ = ()

    def after(self, byte: int) -> Node:
        return self

    def closing(self) -> bytes:
        raise ValueError("a language without members has no shortest one")


NOTHING = _Nothing(math.inf, -math.inf, -math.inf)
EMPTY = Lit(b"")


class Chars(Node):
    """One code point out of `ranges`. `read` of its UTF-8 bytes are consumed already."""

    __slots__ = ("ranges", "read")

    def __init__(self, ranges: Ranges, read: int = 0) -> None:
        first, last = width(ranges[0][0]), width(ranges[-1][1])
        super().__init__(first - read, last - read, last - read)
        self.ranges = ranges
        self.read = read

    def after(self, byte: int) -> Node:
        spans = following(self.ranges[0][0], self.read, byte)
        both = [(max(low, first), min(high, last)) for low, high in self.ranges for first, last in spans]
        kept = tuple((low, high) for low, high in both if low <= high)
        if not kept:
            return NOTHING
        return EMPTY if width(kept[0][0]) == self.read + 1 else Chars(kept, self.read + 1)

    def closing(self) -> bytes:
        return chr(self.ranges[0][0]).encode()[self.read :]


class Seq(Node):
    """`head`, then `tail`. Right-nested, so that reading a byte leaves the tail as it is."""

    __slots__ = ("head", "tail")

    def __init__(self, head: Node, tail: Node) -> None:
        worst = max(head.worst + tail.shortest, tail.worst)
        super().__init__(head.shortest + tail.shortest, head.longest + tail.longest, worst)
        self.head = head
        self.tail = tail

    def after(self, byte: int) -> Node:
        rest = pair(self.head.after(byte), self.tail)
        return alt([rest, self.tail.after(byte)]) if self.head.shortest == 0 else rest

    def closing(self) -> bytes:
        return self.head.closing() + self.tail.closing()


class Alt(Node):
    """Any one of the options."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Node, ...]) -> None:
        super().__init__(
            min(option.shortest for option in options),
            max(option.longest for option in options),
            max(option.worst for option in options),
        )
        self.options = options

    def after(self, byte: int) -> Node:
        return alt(option.after(byte) for option in self.options)

    def closing(self) -> bytes:
        return min(self.options, key=lambda option: option.shortest).closing()


class Repeat(Node):
    """`part`, at least `low` and at most `high` times (`None`: without bound)."""

    __slots__ = ("high", "low", "part")

    def __init__(self, part: Node, low: int, high: int | None) -> None:
        longest = part.longest * (math.inf if high is None else high)
        super().__init__(part.shortest * low, longest, part.worst + max(low - 1, 0) * part.shortest)
        self.part = part
        self.low = low
        self.high = high

    def after(self, byte: int) -> Node:
        rest = repeat(self.part, max(self.low - 1, 0), None if self.high is None else self.high - 1)
        return pair(self.part.after(byte), rest)

    def closing(self) -> bytes:
        return self.part.closing() * self.low


class Words(Node):
    """One of many byte strings: `words[start:end]`, sorted and distinct, of which `depth` bytes are read."""

    __slots__ = ("depth", "end", "start", "words")

    def __init__(self, words: Sequence[bytes], start: int, end: int, depth: int) -> None:
        sizes = [len(words[index]) - depth for index in range(start, end)]
        super().__init__(min(sizes), max(sizes), max(sizes))
        self.words = words
        self.start = start
        self.end = end
        self.depth = depth

    def after(self, byte: int) -> Node:
        def at(word: bytes) -> int:
            return word[self.depth] if len(word) > self.depth else -1

        start = bisect_left(self.words, byte, self.start, self.end, key=at)
        end = bisect_right(self.words, byte, start, self.end, key=at)
        if end - start == 1:
            return Lit(self.words[start][self.depth + 1 :])
        return Words(self.words, start, end, self.depth + 1) if start < end else NOTHING

    def closing(self) -> bytes:
        return min((self.words[i] for i in range(self.start, self.end)), key=len)[self.depth :]


class Capped(Node):
    """The members of `inner` of at most `most` bytes. `longest` is a bound, which need not be reached."""

    __slots__ = ("inner", "most")

    def __init__(self, inner: Node, most: int) -> None:
        super().__init__(inner.shortest, min(inner.longest, most), min(inner.worst, most))
        self.inner = inner
        self.most = most

    def after(self, byte: int) -> Node:
        return capped(self.inner.after(byte), self.most - 1)

    def closing(self) -> bytes:
        return self.inner.closing()


class Leaf(Node):
    """A node that a grammar writes as one terminal, without structure inside.

    The lexer takes the longest terminal it can and never goes back, so texts get lost where one terminal begins with
    another. The parts of JSON (a bracket, a key, a string, a number) are a leaf each: no two of them clash.
    """

    __slots__ = ("inner",)

    def __init__(self, inner: Node) -> None:
        super().__init__(inner.shortest, inner.longest, inner.worst)
        self.inner = inner

    def after(self, byte: int) -> Node:
        return self.inner.after(byte)

    def closing(self) -> bytes:
        return self.inner.closing()


def lit(data: bytes) -> Lit:
    """Exactly these bytes."""
    return Lit(data) if data else EMPTY


def chars(spans: Iterable[Span]) -> Node:
    """One code point of these inclusive ranges."""
    found = ranges(spans)
    return Chars(found) if found else NOTHING


def seq(*parts: Node) -> Node:
    """One after the other."""
    whole: Node = EMPTY
    for part in reversed(parts):
        whole = pair(part, whole)
    return whole


def pair(head: Node, tail: Node) -> Node:
    """`head`, then `tail`."""
    if head is NOTHING or tail is NOTHING:
        return NOTHING
    if tail.longest == 0:
        return head
    if isinstance(head, Lit):
        return _prefixed(head, tail)
    return pair(head.head, pair(head.tail, tail)) if isinstance(head, Seq) else Seq(head, tail)


def _prefixed(head: Lit, tail: Node) -> Node:
    """Literal bytes before a node; neighbouring literals become one."""
    if not head.data:
        return tail
    if isinstance(tail, Lit):
        return Lit(head.data + tail.data)
    if isinstance(tail, Seq) and isinstance(tail.head, Lit):
        return Seq(Lit(head.data + tail.head.data), tail.tail)
    return Seq(head, tail)


def alt(options: Iterable[Node]) -> Node:
    """Any of the options that have a member."""
    flat: list[Node] = []
    for option in options:
        flat.extend(option.options if isinstance(option, Alt) else () if option is NOTHING else (option,))
    unique = tuple(dict.fromkeys(flat))
    return NOTHING if not unique else unique[0] if len(unique) == 1 else Alt(unique)


def repeat(part: Node, low: int, high: int | None) -> Node:
    """`part`, at least `low` and at most `high` times (`None`: without bound)."""
    if high == 0 or part.longest <= 0:
        return NOTHING if part is NOTHING and low > 0 else EMPTY
    return part if low == high == 1 else Repeat(part, low, high)


def words(options: Iterable[bytes]) -> Node:
    """Any one of these byte strings."""
    unique = sorted(set(options))
    if len(unique) < 2:
        return Lit(unique[0]) if unique else NOTHING
    return Words(unique, 0, len(unique), 0)


def capped(inner: Node, most: int) -> Node:
    """The members of at most `most` bytes."""
    if inner.shortest > most:
        return NOTHING
    return inner if inner.longest <= most else Capped(inner, most)


def leaf(inner: Node) -> Node:
    """A part that grammars write as one terminal."""
    return inner if isinstance(inner, _Nothing | Leaf) else Leaf(inner)


def token(data: bytes) -> Node:
    """Literal bytes as a leaf."""
    return Leaf(Lit(data))
