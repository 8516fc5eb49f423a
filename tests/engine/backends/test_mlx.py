"""The MLX backend: whose rows are whose, one sampler a step, prompts on the disk, widths, and what breaks."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.engine.chat import Chat
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.models import ModelSpec, load_models
from nightschool.engine.prefix import PrefixTrie
from nightschool.engine.reply import Reply
from nightschool.engine.types import Completion, EngineError, Message, Request, Sampling
from nightschool.kernels.reference import gumbel

pytest.importorskip("mlx_lm", reason="mlx-lm is not installed: pip install 'mlx[cpu]' mlx-lm")

from nightschool.engine.backends import mlx_engine, mlx_model, mlx_store
from nightschool.engine.backends.mlx import cache_path, load, measure_width
from nightschool.engine.backends.mlx_engine import MLXEngine
from nightschool.engine.backends.mlx_prefix import Prefixes
from nightschool.engine.backends.mlx_rows import RowTags
from nightschool.engine.backends.mlx_store import PrefixStore

Spec = Callable[..., ModelSpec]
TAIL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
)
SYSTEM = Message("system", "the quick brown fox jumps over the lazy dog and checks the staging cluster first. " * 3)


@dataclass(frozen=True)
class Ask:
    """One request; `steps` pass before it arrives, and it is cancelled after so many more, if at all."""

    steps: int
    words: int
    free: bool
    length: int
    temperature: float
    stop: bool
    cancelled: int | None


ASKS = st.lists(
    st.builds(
        Ask,
        st.integers(0, 6),
        st.integers(0, 40),
        st.booleans(),
        st.integers(1, 12),
        st.sampled_from([0.0, 0.8, 1.5]),
        st.booleans(),
        st.none() | st.integers(0, 8),
    ),
    min_size=2,
    max_size=9,
)


@pytest.fixture(scope="module")
def engine(mlx_spec: Spec) -> MLXEngine:
    return load(mlx_spec("llama"), width=4)


def grammar_of(place: int, length: int) -> Grammar:
    """Nobody else's reply obeys it."""
    return Grammar.regex(f"row{place}:[a-z ]{{1,{length}}}")


def run(engine: MLXEngine, asks: list[Ask]) -> None:
    """Let them all arrive and leave; whoever gets a reply gets the one that is due to them."""
    tickets: dict[int, int] = {}
    leave: list[tuple[int, int]] = []
    done: dict[int, Completion] = {}
    clock = 0

    def step() -> None:
        nonlocal clock
        for ticket in [ticket for due, ticket in leave if due == clock and ticket not in done]:
            engine.cancel(ticket)
            del tickets[ticket]
        done.update(engine.step())
        clock += 1

    for place, ask in enumerate(asks):
        for _ in range(ask.steps):
            step()
        sampling = Sampling(
            max_tokens=ask.length if ask.free else 40,
            temperature=ask.temperature,
            seed=place,
            stop=("e",) if ask.stop else (),
        )
        given = None if ask.free else grammar_of(place, ask.length)
        text = f"{place} " + "word " * ask.words
        ticket = engine.submit(Request((SYSTEM, Message("user", text)), given, sampling))
        tickets[ticket] = place
        if ask.cancelled is not None:
            leave.append((clock + ask.cancelled, ticket))
    for _ in range(400):
        if set(tickets) <= set(done):
            break
        step()
    assert set(tickets) <= set(done), "a reply is lost"
    assert engine.step() == []
    for ticket, place in tickets.items():
        reply, ask = done[ticket], asks[place]
        if ask.free:
            assert (reply.usage.generated_tokens or 0) <= ask.length
            assert not ask.stop or "e" not in reply.text
        else:
            assert reply.valid and accepts(grammar_of(place, ask.length), reply.text), reply


@settings(max_examples=40, deadline=None)
@given(asks=ASKS)
def test_whoever_comes_and_goes_no_row_gets_the_mask_of_another(engine: MLXEngine, asks: list[Ask]) -> None:
    run(engine, asks)


CROWD = [Ask(0, 3 * i, i % 4 == 3, 2 + 3 * i, 0.8, False, None) for i in range(8)]


@pytest.mark.parametrize("wrong", ["filter", "merge", "extend"])
def test_rows_in_the_wrong_order_are_noticed(wrong: str, mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    run(load(mlx_spec("llama"), width=4), CROWD)
    original = getattr(RowTags, wrong)

    def turned(*arguments: Any) -> Any:
        result = original(*arguments)
        tags = arguments[0] if result is None else result
        tags.tickets = tags.tickets[1:] + tags.tickets[:1]
        return result

    monkeypatch.setattr(RowTags, wrong, staticmethod(turned) if wrong == "merge" else turned)
    with pytest.raises((EngineError, AssertionError)):
        run(load(mlx_spec("llama"), width=4), CROWD)


@pytest.mark.parametrize("width", [1, 4, 16])
def test_the_sampler_is_called_once_a_step_whatever_the_width(width: int, mlx_spec: Spec) -> None:
    engine = load(mlx_spec("llama"), width=width)
    for place in range(width):
        engine.submit(Request((Message("user", f"{place}"),), grammar_of(place, 30), Sampling(max_tokens=60)))
    while len(engine._rows) < width or any(not reply.ids for reply in engine._intake.running.values()):
        engine.step()
    for _ in range(5):
        before = engine._sampler.calls
        assert engine.step() == []
        assert engine._sampler.calls == before + 1


def test_a_generator_that_forgets_the_sampler_is_noticed(mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_lm.generate import BatchGenerator

    engine = load(mlx_spec("llama"))
    engine.submit(Request((Message("user", "x"),), None, Sampling(max_tokens=20)))
    engine.step()
    engine.step()
    spoken = engine._generator.next()[1]
    assert spoken
    monkeypatch.setattr(BatchGenerator, "next", lambda self: ([], spoken))
    with pytest.raises(EngineError, match="shared sampler"):
        engine.step()
    assert engine.step() == []


def test_an_untested_mlx_lm_is_refused(mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_model, "version", lambda name: "0.40.0")
    with pytest.raises(MachineProblem, match=r"mlx-lm 0\.40\.0") as problem:
        load(mlx_spec("llama"))
    assert "pip install" in problem.value.advice


def test_logits_of_another_width_than_the_config_tells_are_refused(
    mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chat, "width", 460)
    with pytest.raises(Problem, match="451 logits"):
        load(mlx_spec("llama"))


def test_a_folder_without_weights_is_the_folders_fault(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no folder"):
        mlx_model.MLXModel(ModelSpec("gone", f"path:{tmp_path / 'gone'}"))


def test_every_kind_of_cache_has_its_path(kind: str, mlx_spec: Spec) -> None:
    model = mlx_model.MLXModel(mlx_spec(kind))
    assert model.kind == {"llama": "plain", "sliding": "rotating", "hybrid": "hybrid"}[kind]
    assert model.cost.token > 0
    assert (model.cost.row > 0) == (kind == "hybrid")
    assert cache_path(mlx_spec(kind)) == mlx_model.PATHS[model.kind]


def test_caches_that_cannot_be_batched_go_one_row_at_a_time(mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    want = answers(load(mlx_spec("llama"), width=1))
    monkeypatch.setattr(mlx_model, "_kind_of", lambda caches: "single")
    engine = load(mlx_spec("llama"), width=8)
    assert engine.capacity() == 1
    assert answers(engine) == want


def answers(engine: MLXEngine) -> list[str]:
    turns = [SYSTEM, Message("user", "a question " * 20), Message("assistant", "yes"), Message("user", "and " * 20)]
    asked = [Request(tuple(turns[: 2 + 2 * (i % 2)]), grammar_of(i, 9), Sampling(max_tokens=40)) for i in range(5)]
    tickets = [engine.submit(request) for request in asked]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    assert all(done[ticket].valid for ticket in tickets)
    return [done[ticket].text for ticket in tickets]


class TestPromptsOnTheDisk:
    """A long shared prompt is computed once, for the next process too."""

    REQUEST = Request((Message("system", "the staging cluster. " * 130), Message("user", "go")), None, Sampling(8))

    def ask(self, spec: ModelSpec) -> Completion:
        engine = load(spec)
        ticket = engine.submit(self.REQUEST)
        done: dict[int, Completion] = {}
        while not done:
            done.update(engine.step())
        return done[ticket]

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(mlx_engine, "cache_home", lambda: tmp_path)
        return tmp_path / "prefixes"

    def test_the_next_process_reads_it(self, kind: str, mlx_spec: Spec, folder: Path) -> None:
        first, again = self.ask(mlx_spec(kind)), self.ask(mlx_spec(kind))
        assert (first.usage.cached_tokens, again.usage.cached_tokens)[0] == 0
        assert (again.usage.cached_tokens or 0) >= mlx_store.LEAST
        assert again.text == first.text
        assert len(list(folder.iterdir())) == 1

    def test_a_stale_file_is_refused_and_removed(
        self, mlx_spec: Spec, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        first = self.ask(mlx_spec("llama"))
        with monkeypatch.context() as patch:
            patch.setattr(mlx_store, "version", lambda name: "0.32.99")
            assert self.ask(mlx_spec("llama")).usage.cached_tokens == 0
        assert "stale" in caplog.text
        assert self.ask(mlx_spec("llama")).text == first.text

    def test_a_torn_file_is_refused(self, mlx_spec: Spec, folder: Path) -> None:
        first = self.ask(mlx_spec("llama"))
        (path,) = folder.iterdir()
        path.write_bytes(path.read_bytes()[:1000])
        again = self.ask(mlx_spec("llama"))
        assert (again.usage.cached_tokens, again.text) == (0, first.text)

    def test_the_oldest_go_when_there_is_too_much(
        self, mlx_spec: Spec, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.mkdir()
        for age, name in enumerate(("new", "older", "oldest", ".torn", ".writing")):
            path = folder / f"{name}.safetensors"
            path.write_bytes(bytes(10_000))
            seconds = time.time() - (2 * mlx_store.ABANDONED if name == ".torn" else 10 * age)
            os.utime(path, (seconds, seconds))
        monkeypatch.setattr(mlx_store, "LIMIT", 15_000)
        monkeypatch.setattr(mlx_store, "LEAST", 1)
        PrefixStore(folder, Chat(mlx_spec("llama")), "float32").save([1, 2], [])
        kept = {path.name for path in folder.iterdir()}
        assert {"new.safetensors", ".writing.safetensors"} <= kept
        assert not {"oldest.safetensors", ".torn.safetensors"} & kept

    def test_weights_written_anew_make_it_stale(self, mlx_spec: Spec, folder: Path, tmp_path: Path) -> None:
        own = shutil.copytree(mlx_spec("llama").folder, tmp_path / "own")
        spec = replace(mlx_spec("llama"), source=f"path:{own}")
        self.ask(spec)
        assert (self.ask(spec).usage.cached_tokens or 0) > 0
        os.utime(own / "model.safetensors", (1, 1))
        assert self.ask(spec).usage.cached_tokens == 0

    def test_another_process_may_prune_at_any_time(
        self, mlx_spec: Spec, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = self.ask(mlx_spec("llama"))
        touch = os.utime

        def gone(path: Path, *times: Any) -> None:
            path.unlink()
            touch(path, *times)

        monkeypatch.setattr(os, "utime", gone)
        assert self.ask(mlx_spec("llama")).text == first.text

    def test_a_disk_that_takes_nothing_stops_nothing(self, mlx_spec: Spec, folder: Path) -> None:
        folder.write_text("a file where the folder should be")
        assert self.ask(mlx_spec("llama")).usage.generated_tokens == 8


def test_widths_that_fit_are_measured(mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Counter(map(int, measure_width(mlx_spec("hybrid")))) == Counter([1, 2, 4, 8, 16, 32])
    monkeypatch.setattr("nightschool.engine.backends.mlx_measure.room", lambda: 0)
    assert list(measure_width(mlx_spec("llama"))) == ["1"]


def test_a_cast_keeps_what_must_be_precise(mlx_spec: Spec) -> None:
    from mlx.utils import tree_flatten

    net = mlx_model.MLXModel(mlx_spec("hybrid", dtype="bfloat16")).net
    kinds = {path.rpartition(".")[2]: str(leaf.dtype) for path, leaf in tree_flatten(net.parameters())}
    assert kinds["A_log"] == "mlx.core.float32"
    assert kinds["weight"] == "mlx.core.bfloat16"


def test_a_row_that_is_over_is_given_any_token_and_nobody_hears_it(mlx_spec: Spec) -> None:
    engine = load(mlx_spec("llama"), width=8)
    seen: list[int] = []
    draw = engine._sampler._draw

    def spy(scores: Any, mask: Any, rows: Any, vocab: int, **named: Any) -> Any:
        if mask is not None:
            assert mask.shape[0] == scores.shape[0] == len(rows.seed)
            seen.append(int((np.bitwise_count(mask.view(np.uint32)).sum(1) == vocab).sum()))
        return draw(scores, mask, rows, vocab, **named)

    engine._sampler._draw = spy
    answers(engine)
    assert max(seen) >= 1


def test_close_frees_the_weights(mlx_spec: Spec) -> None:
    import mlx.core as mx

    gc.collect()
    before = mx.get_active_memory()
    engine = load(mlx_spec("sliding"))
    answers(engine)
    assert mx.get_active_memory() > before + 50_000
    engine.close()
    gc.collect()
    mx.clear_cache()
    assert mx.get_active_memory() <= before + 10_000


def test_rows_are_padded_to_the_longest_and_counted_so(mlx_spec: Spec) -> None:
    memory = load(mlx_spec("llama"))._intake.memory
    assert memory.need(1000, 10, 10) == memory.need(1000, 1000, 1000)


def test_snapshots_lie_where_a_conversation_goes_on_and_nowhere_else(
    kind: str, mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a template that ends in what the next turn takes out again, as Qwen's does."""
    spec = mlx_spec(kind, template=TAIL)
    engine = load(spec)
    lengths: set[int] = set()
    insert = PrefixTrie.insert

    def kept(trie: Any, tokens: Any, *rest: Any) -> Any:
        lengths.add(len(tokens))
        return insert(trie, tokens, *rest)

    monkeypatch.setattr(PrefixTrie, "insert", kept)
    turns = (SYSTEM, Message("user", "word " * 40))
    engine.submit(Request(turns, None, Sampling(max_tokens=3)))
    while not engine.step():
        pass
    encoded = Chat(spec).encode(turns)
    assert encoded.boundaries[-1] < len(encoded.ids) - 1
    assert lengths == set(encoded.boundaries)


def test_a_snapshot_holds_no_memory_of_its_batch_mates(mlx_spec: Spec) -> None:
    import mlx.core as mx
    from mlx_lm.models.cache import ArraysCache

    batch = ArraysCache(1)
    batch[0] = mx.zeros((64, 1000))
    mx.eval(batch.state)
    cut = batch.extract(3)
    mlx_model.detach([cut])
    before = mx.get_active_memory()
    del batch
    gc.collect()
    mx.clear_cache()
    assert mx.get_active_memory() <= before - 60 * 4000


def test_whatever_escapes_a_step_leaves_nothing_behind(mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load(mlx_spec("llama"))
    tickets = [engine.submit(Request((SYSTEM, Message("user", f"{i}")), None, Sampling(9))) for i in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(Prefixes, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.step()
    for ticket in tickets:
        engine.cancel(ticket)
    assert answers(engine)
    assert not any(entry.pins for entry in engine._prefixes.trie._nodes)


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def replies_of(engine: Any, monkeypatch: pytest.MonkeyPatch) -> dict[int, Reply]:
    """Ten replies, greedy and drawn, under grammars and free; token ids are not part of a completion."""
    seen: dict[int, Reply] = {}
    original = Reply.completion

    def completion(self: Reply) -> Completion:
        seen[self.ticket] = self
        return original(self)

    monkeypatch.setattr(Reply, "completion", completion)
    for place in range(10):
        sampling = Sampling(max_tokens=40, temperature=(0.0, 0.8)[place % 2], seed=place)
        given = None if place % 3 == 0 else grammar_of(place, 20)
        engine.submit(Request((SYSTEM, Message("user", "word " * 5 * place)), given, sampling))
    while len(seen) < 10:
        engine.step()
    return seen


def test_the_logits_and_texts_of_transformers(kind: str, mlx_spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx
    import torch
    from transformers import AutoModelForCausalLM

    from nightschool.engine.backends import transformers

    spec = mlx_spec(kind)
    own = replace(spec, source=f"path:{spec.folder / 'transformers'}")
    theirs = replies_of(transformers.load(own), monkeypatch)
    ours = replies_of(load(spec), monkeypatch)
    reference = AutoModelForCausalLM.from_pretrained(own.folder, dtype=torch.float32).eval()
    net = mlx_model.MLXModel(spec).net
    for ticket, reply in ours.items():
        ids = reply.prompt + reply.ids
        with torch.inference_mode():
            want = reference(torch.tensor([ids]), use_cache=False).logits[0].numpy()
        logits = np.array(net(mx.array([ids])))[0]
        assert np.abs(logits - want).max() < 1e-3
        check_up_to_a_tie(reply, theirs[ticket], want[len(reply.prompt) - 1 :])


def check_up_to_a_tie(one: Reply, other: Reply, logits: Any) -> None:
    at = next((i for i, (a, b) in enumerate(zip(one.ids, other.ids, strict=False)) if a != b), None)
    if at is None:
        assert len(one.ids) == len(other.ids)
        return
    temperature, _, _, seed, _ = one.drawing
    scores = logits[at][: one.chat.tokens.size]
    if temperature:
        scores = scores / np.float32(temperature) + gumbel(seed, at, len(scores))
    assert abs(scores[one.ids[at]] - scores[other.ids[at]]) < 1e-3


@pytest.mark.model
@pytest.mark.slow
def test_the_real_small_model_obeys_a_grammar() -> None:
    engine = load(load_models().get("smollm2-135m", "mlx"))
    colours = Grammar.choice(["red", "green", "blue"])
    ticket = engine.submit(Request((Message("user", "What colour is the sky?"),), colours, Sampling(max_tokens=8)))
    done: dict[int, Completion] = {}
    while not done:
        done.update(engine.step())
    assert done[ticket].valid and done[ticket].text in ("red", "green", "blue")
