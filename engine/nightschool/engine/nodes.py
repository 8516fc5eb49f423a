"""Bounded languages of UTF-8 bytes: what a reply may be, as data.

A node knows the length of its longest and of its shortest member in bytes, a shortest member (`closing`), and the node
that is left once a byte has been read (`after`: the derivative of the language). `worst` bounds from above the shortest
ending of any state that reading can lead to. Nodes are immutable and compared by identity. Build them with the functions
at the end of the module, which keep them small: `NOTHING` (no member at all) never hides inside another node.

`lark.py` writes nodes as grammars; `terms.py` and `schema.py` build them for JSON; `pattern.py` for regular expressions.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Size = int | float
"""A count of bytes; `math.inf` where there is no bound (or no member)."""

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of code points, sorted and apart."""


class Node:
    """A language of byte strings."""

    __slots__ = ("longest", "shortest", "worst")

    def __init__(self, shortest: Size, longest: Size, worst: Size) -> None:
        self.shortest = shortest
        self.longest = longest
        self.worst = worst

    def after(self, byte: int) -> Node:
        """What may follow `byte`; `NOTHING` if no member begins with it."""
        raise NotImplementedError

    def closing(self) -> bytes:
        """A shortest member, always the same one."""
        raise NotImplementedError


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
        first, last = _width(ranges[0][0]), _width(ranges[-1][1])
        super().__init__(first - read, last - read, last - read)
        self.ranges = ranges
        self.read = read

    def after(self, byte: int) -> Node:
        left = [
            (max(low, lo), min(high, hi)) for lo, hi in self.ranges for low, high in self._span(lo, hi, byte)
        ]
        kept = tuple((low, high) for low, high in left if low <= high)
        if not kept:
            return NOTHING
        return EMPTY if _width(kept[0][0]) == self.read + 1 else Chars(kept, self.read + 1)

    def _span(self, low: int, high: int, byte: int) -> Iterable[tuple[int, int]]:
        """The code points near [low, high] whose UTF-8 has `byte` next."""
        if self.read == 0:
            return _LEADS[byte]
        unit = 1 << 6 * (_width(low) - self.read - 1)
        if not 0x80 <= byte <= 0xBF:
            return ()
        base = low - low % (unit << 6) + (byte & 0x3F) * unit
        return ((base, base + unit - 1),)

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
        rest = seq(self.head.after(byte), self.tail)
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
        return seq(self.part.after(byte), rest)

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


class Picks(Node):
    """The inside of a JSON array and its "]": `low` to `high` of the options, each at most once; `used` is a bit set.

    With `between`, an item has just ended, and a comma or the end must follow.
    """

    __slots__ = ("between", "high", "low", "options", "used")

    def __init__(
        self, options: tuple[Node, ...], low: int, high: int, used: int = 0, between: bool = False
    ) -> None:
        self.options = options
        self.low = low
        self.high = high
        self.used = used
        self.between = between
        super().__init__(self._shortest(), self._longest(), self._worst())

    def free(self) -> list[int]:
        """The options that may still come, the shortest first."""
        left = [index for index in range(len(self.options)) if not self.used >> index & 1]
        return sorted(left, key=lambda index: self.options[index].shortest)

    def _missing(self) -> int:
        """How many more options a reply must have."""
        return max(self.low - self.used.bit_count(), 0 if self.between else 1)

    def _frame(self, items: int) -> int:
        """Bytes of the commas around `items` more options, and of the end."""
        return items + 1 if self.between else items

    def _shortest(self) -> Size:
        need = self._missing()
        return sum(self.options[index].shortest for index in self.free()[:need]) + self._frame(need)

    def _longest(self) -> Size:
        count = self.high - self.used.bit_count()
        sizes = sorted((self.options[index].longest for index in self.free()), reverse=True)
        return sum(sizes[:count]) + self._frame(count)

    def _worst(self) -> Size:
        """Inside the option that is hardest to leave, with the longest of the short ones still to come."""
        if self.used.bit_count() == self.high:
            return 1
        more = max(self._missing(), 1) - 1
        sizes = [self.options[index].shortest for index in reversed(self.free())]
        hardest = max(self.options[index].worst for index in self.free())
        return hardest + sum(sizes[:more]) + more + 2

    def after(self, byte: int) -> Node:
        if self.between:
            return self._after_item(byte)
        return alt(seq(self.options[i].after(byte), self._with(i)) for i in self.free())

    def _after_item(self, byte: int) -> Node:
        count = self.used.bit_count()
        if byte == 0x5D and count >= self.low:
            return EMPTY
        if byte == 0x2C and count < self.high:
            return Picks(self.options, self.low, self.high, self.used)
        return NOTHING

    def _with(self, index: int) -> Picks:
        return Picks(self.options, self.low, self.high, self.used | 1 << index, between=True)

    def closing(self) -> bytes:
        need = self.free()[: self._missing()]
        inside = b",".join(self.options[index].closing() for index in need)
        return (b"," if self.between and need else b"") + inside + b"]"


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
    """A node that a grammar writes as one terminal: no structure inside, nothing that needs a parser."""

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


def chars(ranges: Iterable[tuple[int, int]]) -> Node:
    """One code point of these inclusive ranges; surrogates are left out, for UTF-8 has none."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(part for pair in ranges for part in _without_surrogates(*pair)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return Chars(tuple(merged)) if merged else NOTHING


def complement(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The code points outside these ranges."""
    left, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            left.append((start, low - 1))
        start = max(start, high + 1)
    return [*left, (start, 0x10FFFF)] if start <= 0x10FFFF else left


def seq(*parts: Node) -> Node:
    """One after the other."""
    whole: Node = EMPTY
    for part in reversed(parts):
        whole = _pair(part, whole)
    return whole


def _pair(head: Node, tail: Node) -> Node:
    if head is NOTHING or tail is NOTHING:
        return NOTHING
    if isinstance(head, Seq):
        return _pair(head.head, _pair(head.tail, tail))
    if isinstance(head, Lit):
        if not head.data:
            return tail
        if isinstance(tail, Lit):
            return Lit(head.data + tail.data)
        if isinstance(tail, Seq) and isinstance(tail.head, Lit):
            return Seq(Lit(head.data + tail.head.data), tail.tail)
    return head if isinstance(tail, Lit) and not tail.data else Seq(head, tail)


def alt(options: Iterable[Node]) -> Node:
    """Any of the options that have a member."""
    flat: list[Node] = []
    for option in options:
        flat.extend(option.options if isinstance(option, Alt) else () if option is NOTHING else (option,))
    unique = tuple(dict.fromkeys(flat))
    return NOTHING if not unique else unique[0] if len(unique) == 1 else Alt(unique)


def repeat(part: Node, low: int, high: int | None) -> Node:
    """`part`, at least `low` and at most `high` times (`None`: without bound)."""
    if part is NOTHING and low > 0:
        return NOTHING
    if high == 0 or part.longest <= 0:
        return EMPTY
    return part if low == high == 1 else Repeat(part, low, high)


def words(options: Iterable[bytes]) -> Node:
    """Any one of these byte strings."""
    unique = sorted(set(options))
    if len(unique) < 2:
        return Lit(unique[0]) if unique else NOTHING
    return Words(unique, 0, len(unique), 0)


def picks(options: Sequence[Node], low: int, high: int) -> Node:
    """A JSON array of `low` to `high` of the options, each at most once; options without members do not count."""
    usable = tuple(option for option in options if option is not NOTHING)
    if len(usable) > MOST_PICKS:
        raise ValueError(
            f"at most {MOST_PICKS} options can be told apart, not {len(usable)}: sample them first"
        )
    most = min(high, len(usable))
    some = seq(lit(b"["), Picks(usable, max(low, 1), most)) if max(low, 1) <= most else NOTHING
    return alt([lit(b"[]"), some]) if low == 0 else some


def capped(inner: Node, most: int) -> Node:
    """The members of at most `most` bytes."""
    if inner.shortest > most:
        return NOTHING
    return inner if inner.longest <= most else Capped(inner, most)


def leaf(inner: Node) -> Node:
    """A part that grammars write as one terminal."""
    return inner if isinstance(inner, Lit | _Nothing | Leaf) else Leaf(inner)


MOST_PICKS = 63


def _width(code: int) -> int:
    """Bytes of a code point in UTF-8."""
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def _without_surrogates(low: int, high: int) -> list[tuple[int, int]]:
    parts = [(low, min(high, 0xD7FF)), (max(low, 0xE000), high)]
    return [(first, last) for first, last in parts if first <= last]


def _lead(byte: int) -> tuple[tuple[int, int], ...]:
    """The code points whose UTF-8 begins with `byte`."""
    if byte < 0x80:
        return ((byte, byte),)
    for mask, length, least in ((0xC0, 2, 0x80), (0xE0, 3, 0x800), (0xF0, 4, 0x10000)):
        if mask <= byte < (mask >> 1 | 0x80):
            base, size = (byte - mask) << 6 * (length - 1), 1 << 6 * (length - 1)
            return ((max(base, least), min(base + size - 1, 0x10FFFF)),) if base + size > least else ()
    return ()


_LEADS = tuple(_lead(byte) for byte in range(256))
