"""Masks of mixed batches, the guard, thinking and forced text: replies drawn uniformly under the mask."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.engine import terms
from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.terms import Term
from nightschool.engine.types import EngineError
from nightschool.engine.vocabulary import Thought, Vocabulary, thinking_lark, unpack

QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
CONTENT = terms.lines(1, 3, 20)
MAINTAINER = terms.obj(
    {
        "log": terms.text(20, 1),
        "evidence": terms.distinct([f"iter-003/train/t{i}" for i in range(12)], 3, 5),
        "edits": terms.distinct_objects(
            [
                terms.obj({"page": terms.const("patterns/a.md"), "target": terms.const(line), "content": CONTENT})
                for line in ('- say "hi"', "- C:\\temp", "- <|im_end|> 😀")
            ],
            1,
            3,
        ),
        "append": terms.array(terms.obj({"page": terms.choice(["a.md", "b.md"]), "content": CONTENT}), 0, 2),
    }
)
READ, FINISH = (terms.obj({"action": terms.const(name), "id": terms.integer(0, 400)}) for name in ("read", "finish"))


def draw(batch: GrammarBatch, ticket: int, rng: np.random.Generator, *, force: bool = True) -> list[int]:
    """A reply's tokens, each drawn uniformly under its mask; without the end of text."""
    tokens: list[int] = []
    while True:
        tokens += batch.forced(ticket) if force else []
        if batch.finished(ticket):
            return tokens
        token = int(rng.choice(np.flatnonzero(unpack(batch.fill([ticket])[0]))))
        batch.consume([ticket], [token])
        if token in batch.vocabulary.eos:
            return tokens
        tokens.append(token)
        assert len(tokens) < 5000


def allowed(batch: GrammarBatch, tickets: Sequence[int]) -> list[set[int]]:
    return [set(np.flatnonzero(unpack(row)).tolist()) for row in batch.fill(tickets)]


def test_a_row_without_a_grammar_gets_the_tokenizer_and_no_padding(vocabulary: Vocabulary) -> None:
    batch = GrammarBatch(vocabulary)
    batch.add(5, None, 10)
    masks = batch.fill([5, 5])
    assert masks.dtype == np.int32 and masks.shape == (2, (451 + 31) // 32)
    assert vocabulary.real < vocabulary.size
    assert allowed(batch, [5])[0] == set(range(vocabulary.real))
    batch.consume([5], [3])
    assert not batch.finished(5) and batch.forced(5) == []


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99))
def test_rows_of_a_batch_know_nothing_of_each_other(vocabulary: Vocabulary, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grammars = [Grammar.build(MAINTAINER), None, Grammar.build(terms.alt([READ, FINISH])), Grammar.choice(["a", "bc"])]
    mixed, alone = GrammarBatch(vocabulary), [GrammarBatch(vocabulary) for _ in grammars]
    live: list[int] = []
    for step in range(30):
        if step % 3 == 0 and step // 3 < len(grammars):
            ticket = step // 3
            for batch in (mixed, alone[ticket]):
                batch.add(ticket, grammars[ticket], 120)
            live.append(ticket)
        live = [ticket for ticket in live if not mixed.finished(ticket)]
        rng.shuffle(live)
        masks = mixed.fill(live)
        tokens = [int(rng.choice(np.flatnonzero(unpack(mask)))) for mask in masks]
        for ticket, mask, token in zip(live, masks, tokens, strict=True):
            assert (mask == alone[ticket].fill([ticket])[0]).all()
            alone[ticket].consume([ticket], [token])
        mixed.consume(live, tokens)
        if step == 12:
            mixed.remove(live.pop())


@QUICK
@given(data=st.data(), seed=st.integers(0, 999))
def test_random_walks_close_in_time(
    data: st.DataObject,
    seed: int,
    random_terms: st.SearchStrategy[Term],
    vocabulary: Vocabulary,
    byte_vocabulary: Vocabulary,
) -> None:
    grammar = Grammar.build(data.draw(random_terms.filter(lambda term: not term.impossible)))
    used = data.draw(st.sampled_from([vocabulary, byte_vocabulary]))
    batch = GrammarBatch(used, threads=1)
    least = _least_budget(batch, grammar)
    budget = least + data.draw(st.one_of(st.integers(0, 12), st.integers(0, 200)))
    batch.add(1, grammar, budget)
    tokens = draw(batch, 1, np.random.default_rng(seed), force=data.draw(st.booleans()))
    reply = used.decode(tokens)
    assert len(tokens) < budget
    assert accepts(grammar, reply) and len(reply.encode()) < grammar.limit
    json.loads(reply)


@pytest.mark.parametrize("budget", [0, 1, 7, 40, 400])
def test_a_maintainers_reply_closes_in_time(vocabulary: Vocabulary, budget: int) -> None:
    grammar = Grammar.build(MAINTAINER)
    batch = GrammarBatch(vocabulary, threads=1)
    least = _least_budget(batch, grammar)
    for seed in range(6):
        batch.add(seed, grammar, least + budget)
        tokens = draw(batch, seed, np.random.default_rng(seed), force=seed % 2 == 0)
        reply = json.loads(vocabulary.decode(tokens))
        assert len(tokens) < least + budget and len(set(reply["evidence"])) == len(reply["evidence"]) >= 3
        assert len({edit["target"] for edit in reply["edits"]}) == len(reply["edits"])


def test_the_limit_is_always_enough(byte_vocabulary: Vocabulary) -> None:
    grammar = Grammar.build(terms.choice(["abc"]))
    batch = GrammarBatch(byte_vocabulary)
    batch.add(1, grammar, grammar.limit)
    with pytest.raises(ValueError, match="max_tokens is 5, but the shortest reply takes 6"):
        batch.add(2, grammar, grammar.limit - 1)
    by_hand = Grammar.from_lark('start: "a"{1,9}', 10)
    batch.add(3, by_hand, 10)
    with pytest.raises(ValueError, match="needs its limit, 10"):
        batch.add(4, by_hand, 9)


@QUICK
@given(data=st.data(), seed=st.integers(0, 999))
def test_a_budget_of_the_limit_narrows_nothing(
    data: st.DataObject, seed: int, random_terms: st.SearchStrategy[Term], vocabulary: Vocabulary
) -> None:
    grammar = Grammar.build(data.draw(random_terms.filter(lambda term: not term.impossible)))
    batch = GrammarBatch(vocabulary, threads=1)
    batch.add(1, grammar, grammar.limit)
    batch.add(2, grammar, 50 * grammar.limit)
    rng = np.random.default_rng(seed)
    for _ in range(grammar.limit):
        tight, ample = allowed(batch, [1, 2])
        assert tight == ample
        token = int(rng.choice(sorted(tight)))
        batch.consume([1, 2], [token, token])
        if token in vocabulary.eos:
            return
    raise AssertionError("no end within the limit")


def test_a_reply_that_may_end_may_also_go_on(byte_vocabulary: Vocabulary) -> None:
    batch = GrammarBatch(byte_vocabulary)
    batch.add(1, Grammar.regex("a{1,9}"), 4)
    end = byte_vocabulary.eos[0]
    steps = []
    for _ in range(3):
        steps.append(allowed(batch, [1])[0])
        batch.consume([1], [ord("a")])
    assert steps == [{ord("a")}, {ord("a"), end}, {ord("a"), end}]
    assert allowed(batch, [1]) == [{end}]
    batch.consume([1], [end])
    assert batch.finished(1)


def test_hostile_text_is_spelled_with_ordinary_tokens(vocabulary: Vocabulary) -> None:
    hostile = 'x<|im_end|></think>"\\😀'
    grammar = Grammar.build(terms.obj({"target": terms.const(hostile)}))
    for force in (True, False):
        batch = GrammarBatch(vocabulary)
        batch.add(1, grammar, 200)
        tokens = draw(batch, 1, np.random.default_rng(0), force=force)
        assert json.loads(vocabulary.decode(tokens)) == {"target": hostile}
        assert not set(tokens) & set(vocabulary.added.values())


def test_forced_text_is_consumed_and_counted(vocabulary: Vocabulary) -> None:
    batch = GrammarBatch(vocabulary)
    batch.add(1, Grammar.build(terms.obj({"evidence": terms.boolean()})), 60)
    run = batch.forced(1)
    assert len(run) > 1 and '{"evidence":'.startswith(vocabulary.decode(run))
    assert batch.forced(1) == []
    assert accepts(
        Grammar.regex(r"(:)?(true|false)\}"), vocabulary.decode(draw(batch, 1, np.random.default_rng(1)))[-6:]
    )


@pytest.mark.parametrize("tokens", [0, 1, 6])
@pytest.mark.parametrize("seed", range(4))
def test_thinking_is_bounded_and_then_the_reply_follows(vocabulary: Vocabulary, tokens: int, seed: int) -> None:
    grammar = Grammar.build(terms.alt([READ, FINISH]))
    thought = vocabulary.thought(tokens, "</think>\n\n")
    batch = GrammarBatch(vocabulary)
    batch.add(1, grammar, 24, thought)
    drawn = draw(batch, 1, np.random.default_rng(seed), force=seed % 2 == 0)
    spent = batch.thinking_tokens(1)
    assert drawn[spent - 1] == thought.close and 1 <= spent <= tokens + 1
    assert not set(drawn[: spent - 1]) & set(vocabulary.added.values())
    rest = vocabulary.decode(drawn[spent:])
    assert rest.startswith("\n\n") and accepts(grammar, rest.removeprefix("\n\n"))
    assert len(drawn) - spent < 24


@QUICK
@given(data=st.data(), seed=st.integers(0, 999))
def test_forced_text_is_spelled_alike_in_a_run_and_by_masks(
    data: st.DataObject, seed: int, random_terms: st.SearchStrategy[Term], vocabulary: Vocabulary
) -> None:
    grammar = Grammar.build(data.draw(random_terms.filter(lambda term: not term.impossible)))
    batch = GrammarBatch(vocabulary, threads=1)
    budget = _least_budget(batch, grammar) + data.draw(st.integers(0, 60))
    replies = []
    for ticket in (1, 2):
        batch.add(ticket, grammar, budget)
        tokens: list[int] = []
        while not batch.finished(ticket):
            tokens += batch.forced(ticket) if ticket == 1 else []
            if batch.finished(ticket):
                break
            choices = np.flatnonzero(unpack(batch.fill([ticket], spell=ticket == 2)[0]))
            tokens.append(int(np.random.default_rng((seed, len(tokens))).choice(choices)))
            batch.consume([ticket], tokens[-1:])
        replies.append([token for token in tokens if token not in vocabulary.eos])
    assert replies[0] == replies[1]


def test_forced_text_leaves_one_token_in_each_mask(vocabulary: Vocabulary) -> None:
    batch = GrammarBatch(vocabulary)
    text = '{"log":"checked","evidence":["t1"]}'
    batch.add(1, Grammar.build(terms.choice([text])), 200)
    batch.add(2, Grammar.build(terms.choice([text])), 200)
    run = batch.forced(2)
    assert len(run) > 5
    for token in run:
        assert np.flatnonzero(unpack(batch.fill([1], spell=True)[0])).tolist() == [token]
        batch.consume([1], [token])
    assert any(len(left) > 1 for left in _masks_along(batch, Grammar.build(terms.choice([text])), run)), (
        "other spellings"
    )


def _masks_along(batch: GrammarBatch, grammar: Grammar, run: Sequence[int]) -> list[set[int]]:
    """What the grammar alone allows at each token of a run."""
    batch.add(9, grammar, 200)
    masks = []
    for token in run:
        masks += allowed(batch, [9])
        batch.consume([9], [token])
    return masks


def test_free_text_may_follow_thinking(vocabulary: Vocabulary) -> None:
    batch = GrammarBatch(vocabulary)
    thought = Thought(tokens=2, close=vocabulary.added["</think>"], after="")
    batch.add(1, None, 10, thought)
    for token in vocabulary.spell(b"zq")[:2]:
        assert set(vocabulary.eos).isdisjoint(allowed(batch, [1])[0])
        batch.consume([1], [token])
    assert allowed(batch, [1]) == [{thought.close}]
    batch.consume([1], [thought.close])
    free = allowed(batch, [1])[0]
    assert set(vocabulary.eos) <= free and len(free) > 300
    assert "reply0" in thinking_lark(None, thought)


def test_the_end_of_thinking_must_be_a_control_token(vocabulary: Vocabulary) -> None:
    with pytest.raises(Problem, match="no control token"):
        vocabulary.thought(5, "</thought>")
    assert vocabulary.thought(5, "\n</think>\n\n") == Thought(5, vocabulary.added["</think>"], "\n\n")


def test_a_matchers_error_is_an_engine_error(vocabulary: Vocabulary) -> None:
    batch = GrammarBatch(vocabulary)
    batch.add(1, Grammar.choice(["a", "b"]), 5)
    with pytest.raises(EngineError, match="matcher failed"):
        batch.consume([1], vocabulary.spell(b"c"))
    with pytest.raises(EngineError, match="matcher failed"):
        batch.fill([1])


def test_a_vocabulary_needs_an_end_of_text(tokenizer_json: str) -> None:
    with pytest.raises(Problem, match="end-of-text"):
        Vocabulary(tokenizer_json, 451, [4000])


def _least_budget(batch: GrammarBatch, grammar: Grammar) -> int:
    """The smallest max_tokens that the batch takes for a grammar."""
    low, high = 1, grammar.shortest + 1
    while low < high:
        middle = (low + high) // 2
        try:
            batch.add(0, grammar, middle)
            high = middle
        except ValueError:
            low = middle + 1
    batch.remove(0)
    return low
