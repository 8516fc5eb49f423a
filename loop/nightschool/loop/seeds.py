"""Seeds: every random draw of a night follows from one run seed and from what is drawn, never from time or order."""

import hashlib
import random


def derive(*parts: object) -> int:
    """A 31-bit seed from the parts, for example (run seed, split, iteration, role, task, turn, attempt)."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFFFFFF


def rng(*parts: object) -> random.Random:
    """A generator of its own for one draw."""
    return random.Random(derive(*parts))
