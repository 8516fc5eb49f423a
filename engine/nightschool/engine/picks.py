"""Arrays in which nothing comes twice: a node with a bit set of the options that are used up.

Each option gives at most one item, so that no id is cited twice and no span is edited twice. A JSON schema cannot say
it; llguidance can, by rules with a 64-bit parameter, which is why there are at most 63 options.
"""

from __future__ import annotations

from collections.abc import Sequence

from nightschool.engine.nodes import EMPTY, NOTHING, Node, Size, alt, pair, seq, token

MOST = 63


class Picks(Node):
    """The inside of a JSON array and its "]": `low` to `high` of the options, each at most once; `used` is a bit set.

    With `between`, an item has just ended, and a comma or the end must follow.
    """

    __slots__ = ("between", "high", "low", "options", "used")

    def __init__(self, options: tuple[Node, ...], low: int, high: int, used: int = 0, between: bool = False) -> None:
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
        return alt(pair(self.options[i].after(byte), self._with(i)) for i in self.free())

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


def picks(options: Sequence[Node], low: int, high: int) -> Node:
    """A JSON array of `low` to `high` of the options, each at most once; options without members do not count."""
    usable = tuple(option for option in options if option is not NOTHING)
    if len(usable) > MOST:
        raise ValueError(f"at most {MOST} options can be told apart, not {len(usable)}: sample them first")
    most = min(high, len(usable))
    some = seq(token(b"["), Picks(usable, max(low, 1), most)) if max(low, 1) <= most else NOTHING
    return alt([seq(token(b"["), token(b"]")), some]) if low == 0 else some
