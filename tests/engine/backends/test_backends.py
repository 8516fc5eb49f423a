"""What every backend that runs a model in this process does alike: on tiny random models, plain, sliding-window, hybrid."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from nightschool.disk.errors import Problem
from nightschool.engine import terms
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.intake import Memory
from nightschool.engine.models import ModelSpec
from nightschool.engine.reply import Reply, open_reply
from nightschool.engine.types import (
    Completion,
    EngineError,
    Message,
    OutOfMemory,
    PromptTooLong,
    Request,
    Sampling,
)
from nightschool.kernels.reference import gumbel

SAMPLED: dict[int, list[bool]] = {}
"""Which tokens of a reply were sampled, by the reply's id()."""
SYSTEM = Message("system", "the quick brown fox jumps over the lazy dog and checks the staging cluster first. " * 3)


@pytest.fixture
def tokens_of(monkeypatch: pytest.MonkeyPatch) -> dict[int, Reply]:
    """The finished replies, by ticket: their token ids are not part of a completion."""
    seen: dict[int, Reply] = {}
    original = Reply.completion

    def completion(self: Reply) -> Completion:
        seen[self.ticket] = self
        return original(self)

    def accept(self: Reply, token: int, logprob: float = 0.0, forced: bool = False) -> None:
        if not self.ids:
            SAMPLED[id(self)] = []
        SAMPLED[id(self)].append(not forced)
        take(self, token, logprob, forced)

    take = Reply.accept
    monkeypatch.setattr(Reply, "completion", completion)
    monkeypatch.setattr(Reply, "accept", accept)
    return seen


def ask(text: str, grammar: Grammar | None = None, system: Message | None = SYSTEM, **sampling: Any) -> Request:
    messages = (Message("user", text),) if system is None else (system, Message("user", text))
    return Request(messages, grammar, Sampling(**sampling))


def finish(engine: Any, tickets: int) -> dict[int, Completion]:
    done: dict[int, Completion] = {}
    while len(done) < tickets:
        done.update(engine.step())
    return done


def grammars() -> list[Grammar]:
    found = []
    for i in range(32):
        parts = [
            terms.obj({"log": terms.text(5 + 3 * i, 1)}),
            terms.obj({"ids": terms.distinct([f"t{j}" for j in range(i + 3)], 1, 3), "ok": terms.boolean()}),
            terms.array(terms.choice(["staging", "fox", f"n{i}"]), 1, 4),
            terms.regex(f"[a-z]{{{i + 1}}}-[0-9]{{2}}"),
        ]
        found.append(Grammar.build(parts[i % 4]))
    return found


def requests() -> list[Request]:
    """40 requests, 32 with a grammar of their own, 8 free, of 5 to 400 tokens, greedy and drawn."""
    made = []
    for i, grammar in enumerate(grammars()):
        heat: dict[str, Any] = {"temperature": (0.0, 0.7, 1.2)[i % 3], "top_p": (1.0, 0.9)[i % 2], "seed": i}
        made.append(ask(f"question {i} " * (1 + i % 5), grammar, max_tokens=60 + 4 * i, **heat))
    for i, length in enumerate((5, 9, 17, 33, 60, 90, 150, 400)):
        heat = {"temperature": (0.0, 0.8)[i % 2], "top_k": (0, 20)[i % 2], "seed": 100 + i}
        system = None if i % 3 == 0 else SYSTEM
        made.insert(i * 5, ask(f"tell {i}", None, system, max_tokens=length, **heat))
    return made


def reference(spec: ModelSpec, prompt: list[int], ids: list[int]) -> torch.Tensor:
    """Logits of transformers itself, without any cache, for each generated token."""
    from transformers import AutoModelForCausalLM

    if spec.alias not in _MODELS:
        own = spec.folder / "transformers"
        _MODELS[spec.alias] = AutoModelForCausalLM.from_pretrained(
            own if own.is_dir() else spec.folder, attn_implementation="eager", dtype=torch.float32
        ).eval()
    with torch.inference_mode():
        logits = _MODELS[spec.alias](torch.tensor([prompt + ids]), use_cache=False).logits[0]
    return logits[len(prompt) - 1 : -1].float()


_MODELS: dict[str, Any] = {}


def check_against_reference(spec: ModelSpec, reply: Reply, completion: Completion) -> None:
    """Teacher-forced: the tokens that a cache-free model finds as likely as the engine said."""
    logits = reference(spec, reply.prompt, reply.ids)
    logprobs = logits[:, : reply.chat.tokens.size].log_softmax(1)
    each = logprobs[torch.arange(len(reply.ids)), torch.tensor(reply.ids)]
    total = each[torch.tensor(SAMPLED[id(reply)])].sum().item()
    assert completion.logprob == pytest.approx(total, abs=2e-2 + 1e-4 * len(reply.ids))
    sampling = reply.request.sampling
    if reply.request.grammar is None and sampling.temperature == 0:
        best = logits[:, : reply.chat.tokens.size].amax(1)
        chosen = logits[torch.arange(len(reply.ids)), torch.tensor(reply.ids)]
        assert (best - chosen).max() < 2e-3


def check_same_text(spec: ModelSpec, one: Reply, other: Reply) -> None:
    """Equal up to a first step at which the two tokens were as good as tied."""
    at = next((i for i, (a, b) in enumerate(zip(one.ids, other.ids, strict=False)) if a != b), None)
    if at is None:
        assert len(one.ids) == len(other.ids)
        return
    sampling = one.request.sampling
    scores = reference(spec, one.prompt, one.ids[: at + 1])[at].numpy()[: one.chat.tokens.size]
    if sampling.temperature:
        scores = scores / np.float32(sampling.temperature) + gumbel(sampling.seed, at, len(scores))
    assert abs(scores[one.ids[at]] - scores[other.ids[at]]) < 5e-3


def test_a_mixed_batch(kind: str, backend: Any, tokens_of: dict[int, Reply]) -> None:
    spec = backend.spec(kind)
    engine = backend.load(spec, width=24)
    made = requests()
    tickets = [engine.submit(request) for request in made[:14]]
    done: dict[int, Completion] = {}
    for _ in range(4):
        done.update(engine.step())
    tickets += [engine.submit(request) for request in made[14:]]
    for _ in range(3):
        done.update(engine.step())
    cancelled = {ticket for ticket in (tickets[2], tickets[20], tickets[38]) if ticket not in done}
    for ticket in cancelled:
        engine.cancel(ticket)
    engine.cancel(10_000)
    done.update(finish(engine, len(tickets) - len(cancelled) - len(done)))
    assert engine.step() == []
    assert set(done) == set(tickets) - cancelled
    for ticket, request in zip(tickets, made, strict=True):
        if ticket in cancelled:
            continue
        completion, reply = done[ticket], tokens_of[ticket]
        assert completion.usage.generated_tokens == len(reply.ids) <= request.sampling.max_tokens
        assert completion.usage.prompt_tokens == len(reply.prompt)
        if request.grammar is not None:
            assert completion.finish == "stop"
            assert completion.valid and accepts(request.grammar, completion.text)
        elif completion.finish == "length":
            assert not completion.valid
            assert completion.usage.generated_tokens == request.sampling.max_tokens
        check_against_reference(spec, reply, completion)


def test_the_same_text_alone_and_in_a_batch(kind: str, backend: Any, tokens_of: dict[int, Reply]) -> None:
    spec = backend.spec(kind)
    made = [request for request in requests() if request.sampling.max_tokens <= 120][::3]
    engine = backend.load(spec)
    together = finish(engine, len([engine.submit(request) for request in made]))
    batch = {ticket: tokens_of[ticket] for ticket in together}
    alone = backend.load(spec, width=1)
    for ticket, request in enumerate(made, start=1):
        assert alone.submit(request) == ticket
        finish(alone, 1)
        one = tokens_of[ticket]
        check_same_text(spec, batch[ticket], one)


def test_a_shared_prefix_is_read_once(kind: str, backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = backend.load(backend.spec(kind))
    counter = backend.count_prompt_tokens(monkeypatch)
    made = [ask(f"question number {i}", max_tokens=1) for i in range(6)]
    sizes = [engine.count(request.messages) for request in made]
    for request in made:
        engine.submit(request)
    first = finish(engine, len(made))
    cached = [first[ticket].usage.cached_tokens or 0 for ticket in sorted(first)]
    assert cached[0] == 0
    prefix = cached[1]
    assert prefix > 60 and set(cached[1:]) == {prefix}
    assert counter.read == sum(sizes) - sum(cached) == prefix + sum(size - prefix for size in sizes)
    counter.read = 0
    made = [ask(f"another one {i}", max_tokens=1) for i in range(6)]
    for request in made:
        engine.submit(request)
    second = finish(engine, len(made))
    assert all(completion.usage.cached_tokens == prefix for completion in second.values())
    assert counter.read == sum(engine.count(request.messages) - prefix for request in made)


def test_a_conversation_goes_on_from_its_snapshot(kind: str, backend: Any, tokens_of: dict[int, Reply]) -> None:
    spec = backend.spec(kind)
    engine = backend.load(spec)
    turns = [SYSTEM, Message("user", "read the page about the cluster, and say what it is for " * 3)]
    cached = []
    for turn in range(4):
        ticket = engine.submit(Request(tuple(turns), None, Sampling(max_tokens=12, temperature=0.9, seed=turn)))
        completion = finish(engine, 1)[ticket]
        check_against_reference(spec, tokens_of[ticket], completion)
        cached.append(completion.usage.cached_tokens or 0)
        turns += [Message("assistant", completion.text), Message("user", f"and then {turn}? " * 12)]
    assert cached[0] == 0
    assert all(later > before + 40 for before, later in pairwise(cached)), cached


def test_prefill_in_several_passes_changes_nothing(
    kind: str, backend: Any, tokens_of: dict[int, Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.read_at_most(23, monkeypatch)
    spec = backend.spec(kind)
    engine = backend.load(spec)
    tickets = [engine.submit(ask(f"question {i} " * (1 + 4 * i), max_tokens=8)) for i in range(5)]
    done = finish(engine, 5)
    for ticket in tickets:
        check_against_reference(spec, tokens_of[ticket], done[ticket])


def test_out_of_memory_halves_the_batch_and_loses_nothing(
    kind: str, backend: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = [ask(f"question {i}", max_tokens=10, temperature=0.8, seed=i) for i in range(8)]
    calm = backend.load(backend.spec(kind), width=8)
    want = finish(calm, len([calm.submit(request) for request in made]))
    engine = backend.load(backend.spec(kind), width=8)
    seen: set[str] = set()

    def run_out(rows: int, tokens: int) -> None:
        if rows > 4 or (rows == 4 and tokens == 1 and "once" not in seen):
            seen.add("once")
            raise backend.out_of_memory

    backend.before_passes(monkeypatch, run_out)
    got = finish(engine, len([engine.submit(request) for request in made]))
    assert "tiny-" in caplog.text and "ran out of memory: going on with" in caplog.text
    assert [got[t].text for t in sorted(got)] == [want[t].text for t in sorted(want)]


def test_memory_that_never_suffices_is_an_error(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = backend.load(backend.spec("llama"), width=4)
    engine.submit(ask("x"))

    def run_out(rows: int, tokens: int) -> None:
        raise backend.out_of_memory

    with monkeypatch.context() as patch:
        backend.before_passes(patch, run_out)
        with pytest.raises(OutOfMemory):
            for _ in range(5):
                engine.step()
    ticket = engine.submit(ask("again", max_tokens=3))
    assert finish(engine, 1)[ticket].usage.generated_tokens == 3


def test_rows_that_do_not_fit_wait_and_it_is_said(backend: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = backend.load(backend.spec("llama"), width=6)
    made = [ask(f"question {i}", max_tokens=6) for i in range(6)]
    memory = engine._intake.memory
    size = memory.need(engine.count(made[0].messages) + 6)
    engine._intake.memory = Memory(2 * size + size // 2, memory.token, memory.row)
    tickets = [engine.submit(request) for request in made]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
        assert len(engine._intake.running) <= 2
    assert caplog.text.count("2 rows fill the memory, the others wait") == 1


def test_a_failing_model_is_an_engine_error(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = backend.load(backend.spec("llama"))
    engine.submit(ask("x"))

    def fail(rows: int, tokens: int) -> None:
        raise RuntimeError("bad kernel")

    backend.before_passes(monkeypatch, fail)
    with pytest.raises(EngineError, match="bad kernel"):
        engine.step()
    assert engine.step() == []


def test_thinking_is_bounded_and_kept_apart(kind: str, backend: Any) -> None:
    engine = backend.load(backend.spec(kind))
    grammar = Grammar.build(terms.obj({"a": terms.text(8)}))
    messages = (Message("user", "think about </think> it"),)
    draws = [Sampling(max_tokens=40, think_tokens=12, temperature=2.0, seed=seed) for seed in range(4)]
    made = [Request(messages, given, draw, think=True) for draw in draws for given in (grammar, None)]
    done = finish(engine, len([engine.submit(request) for request in made]))
    for ticket, request in enumerate(made, 1):
        completion = done[ticket]
        assert 1 <= (completion.usage.thinking_tokens or 0) <= 13
        assert "</think>" not in completion.text
        if request.grammar is not None:
            assert completion.valid and accepts(grammar, completion.text), "what ends the thinking is no part of it"
    assert any(completion.thinking for completion in done.values())


def test_stop_strings_end_free_text(backend: Any) -> None:
    engine = backend.load(backend.spec("llama"))
    request = ask("x", max_tokens=60, temperature=1.0, seed=1)
    whole = finish(engine, (engine.submit(request), 1)[1]).popitem()[1].text
    found = re.search(r"[ -~]{3}", whole[len(whole) // 3 :])
    assert found
    stop = found.group()
    cut = replace(request, sampling=replace(request.sampling, stop=(stop, "never there")))
    completion = finish(engine, (engine.submit(cut), 1)[1]).popitem()[1]
    assert completion.text == whole[: whole.index(stop)]
    assert completion.finish == "stop" and completion.valid


def test_a_stop_is_found_whatever_the_token_that_holds_it(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = backend.load(backend.spec("llama"))._chat
    monkeypatch.setattr(type(chat.tokens), "bytes_of", lambda self, token: b"-" * 200)
    reply = open_reply(1, ask("x", stop=("---",), max_tokens=5), chat)
    reply.accept(70)
    assert (reply.finish, reply.completion().text) == ("stop", "")


def test_what_a_template_writes_after_the_thinking_stops_nothing(backend: Any) -> None:
    engine = backend.load(backend.spec("llama"))
    sampling = [Sampling(12, think_tokens=5, temperature=1.0, seed=seed, stop=("\n\n",)) for seed in range(4)]
    made = [Request((Message("user", "think"),), None, draw, think=True) for draw in sampling]
    done = finish(engine, len([engine.submit(request) for request in made]))
    assert any(completion.text for completion in done.values())


def test_a_reply_needs_as_much_after_its_thinking_as_before(backend: Any) -> None:
    chat = backend.load(backend.spec("llama"))._chat
    reply = open_reply(1, Request((Message("user", "x"),), None, Sampling(5, think_tokens=100), think=True), chat)
    before = reply.longest
    assert reply.thought is not None
    reply.accept(reply.thought.close)
    assert reply.thought is None and reply.longest == before


def test_a_repetition_penalty_changes_free_text_only(backend: Any) -> None:
    engine = backend.load(backend.spec("llama"))
    texts = []
    for penalty in (1.0, 5.0):
        grammar = Grammar.regex("[a-z]{12}")
        for given in (None, grammar):
            engine.submit(ask("x x x", given, max_tokens=20, repetition_penalty=penalty))
        done = finish(engine, 2)
        texts.append([done[ticket].text for ticket in sorted(done)])
    assert texts[0][0] != texts[1][0]
    assert texts[0][1] == texts[1][1]


def test_a_prompt_that_does_not_fit_is_named(backend: Any) -> None:
    engine = backend.load(backend.spec("llama", context=128))
    with pytest.raises(PromptTooLong, match=r"message 1 \(system\)"):
        engine.submit(ask("short", max_tokens=100))
    with pytest.raises(Problem, match="max_tokens"):
        engine.submit(ask("short", Grammar.regex("[a-z]{40}"), None, max_tokens=2))
    ticket = engine.submit(ask("short", None, None, max_tokens=4))
    assert finish(engine, 1)[ticket].usage.generated_tokens


def test_capacity_close_and_dtype(backend: Any) -> None:
    engine = backend.load(backend.spec("llama"), width=3)
    assert engine.capacity() == 3
    assert not engine.batch_invariant
    engine.close()
    with pytest.raises(Problem, match="float32"):
        backend.load(backend.spec("llama", dtype="flaot32"))


def test_low_precision_still_obeys_grammars(kind: str, backend: Any) -> None:
    engine = backend.load(backend.spec(kind, dtype="bfloat16"))
    made = [ask(f"q {i}", grammar, max_tokens=200) for i, grammar in enumerate(grammars()[:8])]
    done = finish(engine, len([engine.submit(request) for request in made]))
    assert all(completion.valid for completion in done.values())
