"""Problems are two lines, and carry the exit code."""

from nightschool.disk.errors import MachineProblem, Problem, nearest


def test_a_problem_is_two_lines() -> None:
    assert str(Problem("it is wrong", "mend it")) == "it is wrong\nmend it"
    assert (Problem("a", "b").exit_code, MachineProblem("a", "b").exit_code) == (2, 3)


def test_nearest() -> None:
    assert nearest("tempurature", ["temperature", "top_p"]) == "did you mean 'temperature'?"
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
    assert nearest("zzz", []) == "known: none"
