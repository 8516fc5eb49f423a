"""Excerpts: how tasks, traces and pages are shown inside a bounded prompt. Pure text in, pure text out."""

from __future__ import annotations

import re

from nightschool.loop.traces import Trace

MARK = re.compile(r"\[… ([0-9,]+) characters left out …\]")


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, cut at `limit` characters with a mark."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def shrink(text: str, limit: int) -> str:
    """Head and tail of a text that is too long, with a mark that tells how much is left out."""
    if len(text) <= limit:
        return text
    return min(cut(text, max(limit - len(_mark(len(text))), 2)), text, key=len)


def cut(text: str, keep: int) -> str:
    """Head and tail of a text, `keep` characters of it, with the mark between them."""
    return text[: keep - keep // 2] + _mark(len(text) - keep) + text[len(text) - keep // 2 :]


def _mark(number: int) -> str:
    return f"\n[… {number:,} characters left out …]\n"


def outcome(trace: Trace) -> str:
    """One line of a train task: its id, score, question, answer and what was expected."""
    verdict = "passed" if trace.passed else f"failed {trace.score:.2f}"
    return (
        f"- {trace.task} ({verdict}): {one_line(trace.prompt, 160)} | answered: {one_line(trace.answer, 80)}"
        f" | expected: {one_line(trace.expected, 80)}"
    )


def show(trace: Trace, limit: int | None = None) -> str:
    """A whole trace as a reader of it sees it, at most `limit` characters if there is one."""
    verdict = "passed" if trace.passed else "failed"
    steps = "".join(
        f"\nStep {n}: {step.action} {dict(step.args)}\n{shrink(step.observation, 2000)}"
        for n, step in enumerate(trace.steps, 1)
    )
    text = (
        f"Trace {trace.task} ({verdict}, score {trace.score:.2f})\nQuestion: {trace.prompt}{steps}\n"
        f"Answered: {trace.answer}\nExpected: {trace.expected}\nGrader: {trace.reason}"
    )
    return text if limit is None else shrink(text, limit)
