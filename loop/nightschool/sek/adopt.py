"""`sek adopt`: an existing wiki/ becomes a SEK tree, and none of its files is moved or changed.

Written are, where they are missing, `wiki/_routing.md` with a trigger for each page (its name, its title, and the terms
that set it apart from the other pages), the index, and memory/. L0 is the first of CLAUDE.md, AGENTS.md and GEMINI.md that
is there; `sek import` makes it small.
"""

from __future__ import annotations

import math
import re
from collections import Counter as Tally
from dataclasses import dataclass
from pathlib import PurePosixPath

from nightschool.disk.errors import Problem
from nightschool.disk.files import write_atomic
from nightschool.sek.index import about
from nightschool.sek.index import render as render_index
from nightschool.sek.router import Router
from nightschool.sek.routing import Routing, Trigger, rendered
from nightschool.sek.start import memory_files
from nightschool.sek.stopwords import STOPWORDS
from nightschool.sek.terms import Counts, Page, Terms
from nightschool.sek.tree import ROUTING, WIKI, Tree
from nightschool.sek.triggers import BOOTSTRAP
from nightschool.sek.words import phrase, surfaces

MOST_WORDS = 4
"""Words of a title that is a keyword; a longer one nobody types."""
TERMS_A_PAGE = 4
MOST_SHARED = 2
"""Pages that may share a keyword made by code."""
BOOTSTRAPS = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was found, and what was written."""

    pages: int
    triggers: int
    bootstrap: str
    written: tuple[str, ...]
    problems: tuple[str, ...]
    """Pages that cannot be read, and why."""


def adopt(tree: Tree, counter: Counts) -> Adopted:
    """Make the tree; a Problem if there is no wiki, or if it is one already."""
    if tree.exists():
        raise Problem(f"{tree.root} is a SEK tree already", "nightschool sek lint checks it; edit wiki/_routing.md")
    if not (tree.root / WIKI).is_dir():
        raise Problem(f"there is no folder {tree.root / WIKI}", "nightschool sek init makes a new one")
    index = Terms.load(tree)
    pages = [page for page in index.pages if page]
    if not pages:
        raise Problem(f"{tree.root / WIKI} has no pages (*.md)", "nightschool sek init makes a new tree")
    bootstrap = next((name for name in BOOTSTRAPS if (tree.root / name).is_file()), BOOTSTRAP)
    routing = Routing(triggers(tree, index), bootstrap=bootstrap)
    files = memory_files() | render_index(tree, counter.count) | {ROUTING: rendered(routing)}
    written = [path for path in files if not tree.has(path)]
    for path in written:  # the routing table last: it is what makes the folder a tree
        write_atomic(tree.inside(path), files[path])
    made = Tree(tree.root)
    Router.over(made, index, counter).index.save(made, counter)
    problems = tuple(problem.what for problem in index.problems)
    return Adopted(len(pages), len(routing.triggers), bootstrap, tuple(written), problems)


def triggers(tree: Tree, index: Terms) -> tuple[Trigger, ...]:
    """A trigger for every page that has a keyword to itself, or nearly."""
    wanted = {page.path: _keywords(tree, index, page) for page in index.pages if page}
    shared = Tally(phrase(word) for words in wanted.values() for word in words)
    found = []
    ids: Tally[str] = Tally()
    for path, words in wanted.items():
        kept = tuple(word for word in words if shared[phrase(word)] <= MOST_SHARED)
        if not kept:
            continue
        name = re.sub(r"[^\w.-]+", "-", PurePosixPath(path).stem).strip("-._")[:56] or "page"
        ids[name] += 1
        found.append(Trigger(name if ids[name] == 1 else f"{name}-{ids[name]}", kept, (path,), by="adopt"))
    return tuple(found)


def _keywords(tree: Tree, index: Terms, page: Page) -> list[str]:
    text = tree.read(page.path)
    named = [about(text), PurePosixPath(page.path).stem.replace("-", " ").replace("_", " ")]
    titles = [re.sub(r"[^\w .+#-]+", " ", title) for title in named]
    candidates = [" ".join(title.split()) for title in titles]
    words = [
        title for title in candidates if 0 < len(phrase(title)) <= MOST_WORDS and not set(phrase(title)) <= STOPWORDS
    ]
    spelled = surfaces(text)
    rare = sorted((-_worth(index, page, term), term) for term in spelled if _is_telling(term))[:TERMS_A_PAGE]
    words += [spelled[term].casefold() for worth, term in rare if worth < 0]
    return list({phrase(word): word for word in reversed(words) if any(map(str.isalnum, word))}.values())[::-1]


def _worth(index: Terms, page: Page, term: str) -> float:
    """How much a term sets the page apart: often here, seldom elsewhere."""
    numbers, weights = index.postings(term)
    mine = next((weight for number, weight in zip(numbers, weights, strict=True) if index.pages[number] is page), 0)
    return mine * math.log(len(index.pages) / len(numbers)) if mine > 1 else 0.0


def _is_telling(term: str) -> bool:
    return len(term) > 2 and term not in STOPWORDS and not term.isdigit()
