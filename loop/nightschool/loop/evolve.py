"""One night: the WikiSkill loop, readable as the algorithm.

Each call on `night` is a stage that is done once: what the journal holds is read back, never made again (night.py).
Knowledge is written unconditionally; a skill enters only through the gate.
"""

from __future__ import annotations

from nightschool.loop.gate import Outcome
from nightschool.loop.night import Night


def evolve(night: Night) -> None:
    """Run the night to its end, or on from where it was stopped."""
    best = night.baseline()
    for k in night.iterations():
        best = night.standing(k, best)
        if best >= 1.0:
            break
        state = night.state(k)
        parent = night.strategy.parent(state)
        traces = night.rollout(k, "train", night.strategy.batch(state), parent)
        night.study(k, traces)
        proposal = night.propose(k, traces)
        outcome = Outcome(k, "no_action", None, None, False, proposal.reason)
        if proposal.change is not None:
            outcome = night.try_out(k, proposal.change, parent, best)
        night.strategy.remember(state, outcome)
        outcome = night.settle(outcome, proposal, best)
        if outcome.accepted and outcome.score is not None:
            best = outcome.score
    night.test()
    night.promote()
    night.end("val is perfect" if best >= 1.0 else "all iterations are done")
