"""What the linter finds in a tree, where, and which of it it mends by itself."""

from __future__ import annotations

import pytest
from tests.sek.conftest import ROUTING, Plant, Words

from nightschool.sek import lint
from nightschool.sek.tree import Tree

L0 = "## Identity\n\nI.\n\n## Categories\n\n- rules\n\n## Triggers\n\nroute\n\n## Critical Rules\n"
MORE = "  - id: more\n    keywords: [alembic, twine]\n    load: [wiki/rules/database.md, wiki/workflows/release.md]\n"
CLEAN = {
    "AGENTS.md": L0,
    "wiki/_routing.md": ROUTING + MORE,
    "wiki/rules/frontend.md": "# Components\n\n- [FE-001] Draw no button by hand, because it drifts: see #12.\n",
}
RULE = "wiki/rules/more.md"


def found(tree: Tree, words: Words) -> set[tuple[str, str, str]]:
    """Place, code and level of each finding, without the index, which a planted tree lacks."""
    return {(each.place, each.code, each.level) for each in lint.run(tree, words.count) if each.code != "index"}


def test_a_clean_tree(plant: Plant, words: Words) -> None:
    assert found(plant(CLEAN), words) == set()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({RULE: "# A\n\n[x](gone.md) `[y](gone.md)`\n"}, (f"{RULE}:3", "dead-link", "error")),
        ({RULE: "# A\n\n[[nowhere]]\n"}, (f"{RULE}:3", "dead-link", "error")),
        ({RULE: "# A\n\n[up](../../../etc/passwd)\n"}, (f"{RULE}:3", "dead-link", "error")),
        ({RULE: "# A\n"}, (f"{RULE}:1", "orphan", "warning")),
        ({RULE: " \n"}, (f"{RULE}:1", "empty", "warning")),
        ({RULE: "# A\n\n```sh\nls\n"}, (f"{RULE}:3", "torn-fence", "warning")),
        ({RULE: b"# A\n\xff\n"}, (f"{RULE}:2", "unreadable", "error")),
        ({RULE: b"x" * 5_000_001}, (f"{RULE}:1", "unreadable", "error")),
        ({RULE: "key: AKIAQ3EGRJ7ZV5K2MWPT\n"}, (f"{RULE}:1", "secret", "error")),
        ({RULE: "password=your-password-1234\n"}, (f"{RULE}:1", "secret", "warning")),
        ({RULE: "ask m.okonkwo@hosting.net\n"}, (f"{RULE}:1", "e-mail", "error")),
        ({RULE: "ask someone@example.com\n"}, (f"{RULE}:1", "e-mail", "warning")),
        ({RULE: "- [FE-001] Another thing, because: #1.\n"}, (f"{RULE}:1", "tag-twice", "error")),
        ({RULE: "- [FE-002] Buttons are blue.\n"}, (f"{RULE}:1", "reason", "warning")),
        (
            {RULE: "- [FE-002] Draw no button by hand, because it drifts: see #12.\n"},
            (f"{RULE}:1", "duplicate", "error"),
        ),
        (
            {RULE: "- [X-1] Never commit the lock file.\n- [X-2] Always commit the lock file.\n"},
            (f"{RULE}:2", "contradiction", "warning"),
        ),
        ({"wiki/rules/database.md": None}, ("wiki/_routing.md:8", "missing-page", "error")),
        (
            {"wiki/_routing.md": ROUTING + MORE + "  - id: again\n    keywords: [Pricings]\n    load: [AGENTS.md]\n"},
            ("wiki/_routing.md:11", "overlap", "warning"),
        ),
        ({"wiki/_routing.md": "triggers:\n  - id: a\n    keywords: []\n"}, ("wiki/_routing.md:2", "routing", "error")),
        ({"wiki/_routing.md": "l0_budget: 5\n" + ROUTING + MORE}, ("AGENTS.md:1", "l0-budget", "error")),
        ({"AGENTS.md": "# Me\n"}, ("AGENTS.md:1", "l0-section", "warning")),
        ({"AGENTS.md": None}, ("AGENTS.md:1", "no-l0", "error")),
    ],
)
def test_each_finding_and_its_place(
    files: dict[str, str | bytes | None], expected: tuple[str, str, str], plant: Plant, words: Words
) -> None:
    tree = plant({**CLEAN, **files})
    told = found(tree, words)
    assert expected in told
    assert {each for each in told if each[2] == "error"} <= {expected}
    assert all(each.why and each.advice for each in lint.run(tree, words.count))


def test_fix_mends_triggers_and_indexes_once_and_no_words(plant: Plant, words: Words) -> None:
    tree = plant({**CLEAN, RULE: "# Kubernetes probes\n\nA probe waits.\n", "wiki/rules/database.md": None})
    pages = {path: tree.read(path) for path in tree.pages()}
    assert {each.code for each in lint.fix(tree, words.count)} >= {"orphan", "missing-page"}
    after = Tree(tree.root)
    assert {path: after.read(path) for path in after.pages()} == pages
    loads = {path for trigger in after.routing().triggers for path in trigger.load}
    assert RULE in loads and "wiki/rules/database.md" not in loads
    assert found(after, words) == set() and lint.fix(after, words.count) == []
