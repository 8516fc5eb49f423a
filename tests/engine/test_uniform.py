"""The engine without a model: replies at random that nevertheless keep every rule."""

import json

import jsonschema
import pytest

from nightschool.engine import terms
from nightschool.engine.backends.uniform import UniformEngine, load
from nightschool.engine.engine import Engine
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.models import scripted_spec
from nightschool.engine.terms import Term
from nightschool.engine.types import Completion, Message, PromptTooLong, Request, Sampling
from nightschool.engine.vocabulary import Vocabulary

CONTENT = terms.lines(1, 2, 12)
SHAPES = {
    "proposal": terms.alt(
        [
            terms.obj({"action": terms.const("read_file"), "path": terms.choice(["a.md", "b.md"])}),
            terms.obj({"action": terms.const("finish"), "name": terms.matching("[a-z]{1,8}(-[a-z]{1,8})?")}),
        ]
    ),
    "edits": terms.distinct_objects(
        [terms.obj({"target": terms.const(f"- line {i}"), "content": CONTENT}) for i in range(5)], 1, 3
    ),
    "citations": terms.obj({"evidence": terms.distinct([f"t{i}" for i in range(20)], 4, 8), "log": terms.text(15)}),
    "answer": terms.obj(
        {"n": terms.integer(-20, 2000), "x": terms.number(-3, 9, 3), "ok": terms.boolean()}, ["n", "ok"]
    ),
    "nested": terms.array(terms.array(terms.fixed([terms.text(3), terms.null()]), 0, 2), 1, 3),
}


def ask(grammar: Grammar | None, seed: int = 0, max_tokens: int = 150) -> Request:
    return Request((Message("user", "do it"),), grammar, Sampling(max_tokens=max_tokens, seed=seed))


def run(engine: Engine, requests: list[Request]) -> list[Completion]:
    tickets = [engine.submit(request) for request in requests]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    return [done[ticket] for ticket in tickets]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tokenizer", ["bytes", "bpe"])
def test_a_hundred_replies_keep_every_rule(name: str, tokenizer: str, vocabulary: Vocabulary) -> None:
    term: Term = SHAPES[name]
    grammar = Grammar.build(term)
    engine = UniformEngine(scripted_spec(), vocabulary if tokenizer == "bpe" else None, width=100)
    replies = run(engine, [ask(grammar, seed) for seed in range(100)])
    assert len({reply.text for reply in replies}) > 10
    for reply in replies:
        assert reply.finish == "stop" and reply.valid and accepts(grammar, reply.text)
        assert len(reply.text.encode()) < grammar.limit
        jsonschema.validate(json.loads(reply.text), term.schema)
        assert reply.usage.generated_tokens is not None and reply.usage.generated_tokens <= 150


def test_a_reply_does_not_depend_on_its_batch_mates() -> None:
    grammars = [Grammar.build(term) for term in SHAPES.values()]
    requests = [ask(grammar, seed) for seed, grammar in enumerate(grammars * 2)]
    alone = [run(UniformEngine(scripted_spec()), [request])[0].text for request in requests]
    for width in (2, 32):
        assert [reply.text for reply in run(UniformEngine(scripted_spec(), width=width), requests)] == alone


def test_free_requests_get_an_empty_text() -> None:
    engine = load(scripted_spec(), width=2)
    free, bound = run(engine, [ask(None), ask(Grammar.build(terms.boolean()))])
    assert (free.text, free.finish, free.usage.generated_tokens) == ("", "stop", 0)
    assert bound.text in ("true", "false") and bound.usage.prompt_tokens == 5
    assert engine.capacity() == 2 and engine.batch_invariant


def test_a_cancelled_ticket_is_forgotten() -> None:
    engine = UniformEngine(scripted_spec())
    gone, kept = (engine.submit(ask(Grammar.build(SHAPES["answer"]), seed)) for seed in (1, 2))
    engine.step()
    engine.cancel(gone)
    engine.cancel(999)
    done: list[tuple[int, Completion]] = []
    while not done:
        done = engine.step()
    assert [ticket for ticket, _ in done] == [kept] and engine.step() == []
    engine.close()


def test_a_prompt_that_does_not_fit_is_refused() -> None:
    engine = UniformEngine(scripted_spec(context=64))
    with pytest.raises(PromptTooLong, match="the prompt takes 5 tokens and its reply 60"):
        engine.submit(ask(None, max_tokens=60))
