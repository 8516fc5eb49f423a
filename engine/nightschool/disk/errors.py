"""Problems that a person can mend: one line what is wrong, one line what to do.

Every module raises these; the command line prints them and chooses the exit code. No other layer prints.
"""

import difflib
from collections.abc import Iterable


class Problem(Exception):
    """Bad input, or something a person must decide. The command line exits with 2."""

    exit_code = 2

    def __init__(self, what: str, advice: str) -> None:
        """`what` is wrong and `advice` says what to do; both one line, without a full stop at the end."""
        super().__init__(f"{what}\n{advice}")
        self.what = what
        self.advice = advice


class MachineProblem(Problem):
    """The machine failed (disk full, out of memory, a dead engine); the night can be resumed. Exit code 3."""

    exit_code = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known spelling, or lists what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
