"""How the token tax grows with what there is to know: everything in one instruction file, against a SEK tree.

Pages of made-up words are written to a temporary folder, the same for both ways. One file costs every session all of it; a
tree costs L0 and the pages that the router loads for a prompt, which is asked of the router itself, prompt by prompt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from nightschool.bench.result import Measure
from nightschool.bench.route import Draw, grow
from nightschool.sek.terms import Counts

SIZES = (10, 20, 50, 100, 200, 500)
QUICK = SIZES[:3]
PROMPTS, WORDS, SEED = 20, 14, 7


def growth(
    counter: Counts, sizes: tuple[int, ...] = SIZES, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Measure]:
    """Tokens a session by the number of pages; of the tree a sample for each prompt."""
    for pages in sizes:
        tell(f"growth, {pages} pages")
        with tempfile.TemporaryDirectory(prefix="nightschool-") as folder:
            flat, routed = _costs(Path(folder), pages, counter)
        yield Measure("growth", "tok", (flat,), params={"kept in": "one file", "pages": pages})
        yield Measure("growth", "tok", routed, params={"kept in": "L0 + routed", "pages": pages})


def _costs(root: Path, pages: int, counter: Counts) -> tuple[float, tuple[float, ...]]:
    from nightschool.sek.router import Router
    from nightschool.sek.start import new_bootstrap
    from nightschool.sek.tree import Tree

    draw = Draw(SEED)
    grow(root, pages, max(1, pages // 5), draw)
    (root / "AGENTS.md").write_text(new_bootstrap("this project", "English"), "utf-8")
    tree = Tree(root)
    flat = sum(counter.count(tree.read(page)) for page in (tree.routing().bootstrap, *tree.pages()))
    router = Router.load(tree, counter)
    return float(flat), tuple(float(router.route(draw.text(WORDS)).total_tokens) for _ in range(PROMPTS))
