"""Seeds: every random draw of a night follows from one run seed and from what is drawn, never from time or order."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def derive(*parts: object) -> int:
    """A 31-bit seed from the parts, for example (run seed, split, iteration, role, task, turn, attempt)."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFFFFFF


def rng(*parts: object) -> random.Random:
    """A generator of its own for one draw."""
    return random.Random(derive(*parts))


def some(items: Sequence[T], n: int, seed: int) -> list[T]:
    """All of the items, or a sample of `n` of them, in their order: what does not fit is drawn, not cut off."""
    if len(items) <= n:
        return list(items)
    return [items[index] for index in sorted(random.Random(seed).sample(range(len(items)), max(n, 0)))]
