"""Whether the router finds the page that a prompt needs, and at what cost: `python -m bench recall PROMPTS --tree DIR`.

A line of PROMPTS is {"id", "page", "prompt"}: the page, a path of the tree, is what somebody says that the prompt needs. The
same is asked of plain BM25 over the same pages (k1 1.2, b 0.75, words in lower case), with the same budget.
`unseen` are prompts that share no word with a heading of their page or a keyword of its triggers.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nightschool.sek.router import Router
from nightschool.sek.tree import Tree
from nightschool.sek.words import content

K1, B = 1.2, 0.75
_HEADING = re.compile(r"^#+ (.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A prompt and the page that it needs."""

    id: str
    page: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one prompt; tokens are those of L0 and everything loaded."""

    id: str
    routed: bool
    bm25: bool
    tokens: int
    bm25_tokens: int
    unseen: bool


@dataclass(frozen=True, slots=True)
class Recall:
    """Shares of prompts whose page was loaded, and mean tokens."""

    prompts: int
    recall: float
    bm25: float
    tokens: float
    bm25_tokens: float
    unseen: int
    unseen_recall: float | None
    unseen_bm25: float | None
    missed: tuple[str, ...]


class BM25:
    """The yardstick."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` by their names."""
        self._words = {name: Counter(_plain(text)) for name, text in texts.items()}
        self._pages = Counter(word for words in self._words.values() for word in words)
        self._lengths = {name: sum(words.values()) for name, words in self._words.items()}
        self._mean = sum(self._lengths.values()) / max(len(self._lengths), 1)

    def rank(self, text: str) -> list[str]:
        """The names of the texts that share a word with this one, the best first."""
        wanted = set(_plain(text))
        scores = {
            name: sum(self._score(name, word) for word in wanted if word in words)
            for name, words in self._words.items()
        }
        return sorted((name for name in scores if scores[name] > 0), key=lambda name: (-scores[name], name))

    def _score(self, name: str, word: str) -> float:
        count, pages = self._words[name][word], self._pages[word]
        rarity = math.log(1 + (len(self._words) - pages + 0.5) / (pages + 0.5))
        return rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * self._lengths[name] / self._mean))


def judge(tree: Tree, prompts: Sequence[Labelled], count: Callable[[str], int]) -> list[Found]:
    """Ask the router and BM25 for each prompt."""
    routing, router = tree.routing(), Router.load(tree)
    texts = {path: tree.read(path) for path in tree.pages()}
    costs, plain, l0 = (
        {path: count(text) for path, text in texts.items()},
        BM25(texts),
        count(tree.read(routing.bootstrap)),
    )
    known = {
        path: {word for title in _HEADING.findall(text) for word in content(title)} for path, text in texts.items()
    }
    for trigger in routing.triggers:
        for path in trigger.load:
            known.setdefault(path, set()).update(word for keyword in trigger.keywords for word in content(keyword))
    found = []
    for each in prompts:
        route = router.route(each.prompt)
        loaded, used = set(), 0
        for path in plain.rank(each.prompt):
            if used + costs[path] <= routing.budget:
                loaded.add(path)
                used += costs[path]
        routed = any(load.path == each.page for load in route.loads)
        unseen = not known[each.page] & set(content(each.prompt))
        found.append(Found(each.id, routed, each.page in loaded, route.total_tokens, l0 + used, unseen))
    return found


def summed(found: Sequence[Found]) -> Recall:
    """The figures of a set."""
    unseen = [each for each in found if each.unseen]
    return Recall(
        prompts=len(found),
        recall=_share([each.routed for each in found]) or 0.0,
        bm25=_share([each.bm25 for each in found]) or 0.0,
        tokens=sum(each.tokens for each in found) / max(len(found), 1),
        bm25_tokens=sum(each.bm25_tokens for each in found) / max(len(found), 1),
        unseen=len(unseen),
        unseen_recall=_share([each.routed for each in unseen]),
        unseen_bm25=_share([each.bm25 for each in unseen]),
        missed=tuple(each.id for each in found if not each.routed),
    )


def read(path: Path) -> list[Labelled]:
    """The prompts of a file."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [Labelled(row["id"], row["page"], row["prompt"]) for row in rows]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures of a file of prompts, as JSON."""
    from nightschool.sek.counting import counter

    parser = argparse.ArgumentParser(prog="python -m bench recall", description=__doc__.split("\n")[0])
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--tree", type=Path, required=True)
    args = parser.parse_args(argv)
    found = summed(judge(Tree(args.tree), read(args.prompts), counter(cwd=args.tree).count))
    print(json.dumps({"schema": 1, **asdict(found)}, indent=1))
    return 0


def _plain(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


if __name__ == "__main__":
    sys.exit(main())
