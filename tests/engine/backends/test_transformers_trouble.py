"""The transformers backend where something goes wrong, or is not as usual: memory, attention, gaps in the ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nightschool.disk.errors import Problem
from nightschool.engine import terms
from nightschool.engine.backends import torch_kv, torch_model
from nightschool.engine.backends.torch_engine import TorchEngine
from nightschool.engine.backends.transformers import load, measure_dtype
from nightschool.engine.chat import Chat
from nightschool.engine.engine import Engine, drive
from nightschool.engine.grammar import Grammar
from nightschool.engine.models import ModelSpec
from nightschool.engine.prefix import PrefixTrie
from nightschool.engine.types import Completion, Message, Request, Sampling

Spec = Callable[..., ModelSpec]
SYSTEM = Message("system", "the quick brown fox jumps over the lazy dog and checks the staging cluster first. " * 3)
WORKERS = {
    "forward": torch_model.TorchModel,
    "add": torch_kv.Group,
    "write": torch_kv.Group,
    "remove": torch_kv.Group,
    "chunk": torch_kv.Group,
    "insert": PrefixTrie,
}
"""What allocates while an engine works, and whose it is."""


def ask(text: str, grammar: Grammar | None = None, **sampling: Any) -> Request:
    return Request((SYSTEM, Message("user", text)), grammar, Sampling(**{"temperature": 0.8, **sampling}))


def made() -> list[Request]:
    """Replies of one token, which end as they begin, among longer ones."""
    grammar = Grammar.build(terms.obj({"a": terms.text(4)}))
    lengths = (1, 6, 1, 9, 3)
    free = [ask(f"question {i}", max_tokens=length, seed=i) for i, length in enumerate(lengths)]
    return [*free, ask("an object", grammar, max_tokens=30, seed=9)]


def answers(engine: Engine) -> dict[str, str]:
    """All replies, by `drive`, which would spin for ever if one got lost; each comes once."""

    def agent(request: Request) -> Any:
        completion: Completion = yield request
        return completion.text

    steps, step = iter(range(300)), engine.step

    def counted() -> list[tuple[int, Completion]]:
        assert next(steps, None) is not None, "a reply is lost"
        return step()

    engine.step = counted  # type: ignore[method-assign]
    return dict(drive(engine, {str(i): agent(request) for i, request in enumerate(made())}))


def fail(monkeypatch: pytest.MonkeyPatch, name: str, at: int) -> list[int]:
    """Let the memory run out once, at the call `at` of a worker; what it returns counts the calls."""
    calls: list[int] = []
    original = getattr(WORKERS[name], name)

    def worker(*arguments: Any, **named: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == at:
            raise torch.OutOfMemoryError("out of memory")
        return original(*arguments, **named)

    monkeypatch.setattr(WORKERS[name], name, worker)
    return calls


def test_a_reply_that_ends_at_once_survives_the_failure_of_the_others(
    kind: str, tiny_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    engine = load(tiny_spec(kind), width=4, say=heard.append)
    tickets = [engine.submit(request) for request in made()[:4]]
    forward = torch_model.TorchModel.forward

    def no_decoding(model: Any, ids: torch.Tensor, positions: torch.Tensor, plan: Any, *rest: Any) -> torch.Tensor:
        if plan.groups:
            raise MemoryError
        return forward(model, ids, positions, plan, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(torch_model.TorchModel, "forward", no_decoding)
        assert sorted(ticket for ticket, _ in engine.step()) == [tickets[0], tickets[2]]
    assert heard == [f"tiny-{kind} ran out of memory: going on with 1 row"]
    done: list[int] = []
    for _ in range(40):
        done += [ticket for ticket, _ in engine.step()]
    assert sorted(done) == [tickets[1], tickets[3]]


@pytest.mark.parametrize("name", WORKERS)
@pytest.mark.parametrize("model", ["llama", "hybrid"])
def test_wherever_memory_runs_out_every_reply_comes_once(
    model: str, name: str, tiny_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tiny_spec(model)
    chat = Chat(spec)
    weights = torch_model.TorchModel(spec.alias, spec.folder, torch.float32, torch.device("cpu"))
    want = answers(TorchEngine(chat, weights, 6))
    failed = 0
    for at in (1, 2, 4, 9):
        heard: list[str] = []
        with monkeypatch.context() as patch:
            calls = fail(patch, name, at)
            engine = TorchEngine(chat, weights, 6, heard.append)
            got = answers(engine)
        failed += len(calls) >= at
        assert len(heard) == (len(calls) >= at)
        assert got == want, at
        assert answers(engine) == want, "nothing stays behind"
    assert failed


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        ("Gemma2Config", {}, "soft-capped attention scores"),
        ("VaultGemmaConfig", {}, "soft-capped attention scores"),
        ("GptOssConfig", {"num_local_experts": 2, "num_experts_per_tok": 1}, "attention sinks"),
    ],
)
def test_attention_that_is_not_ours_is_refused_before_any_weight_is_read(
    tmp_path: Path, kind: str, settings: dict[str, Any], told: str
) -> None:
    import transformers

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    getattr(transformers, kind)(**sizes, **heads, **settings).save_pretrained(tmp_path)
    with pytest.raises(Problem, match=f"cannot run tiny: it has {told}\nchoose another model"):
        torch_model.TorchModel("tiny", tmp_path, torch.float32, torch.device("cpu"))


def test_every_model_that_asks_for_such_attention_is_known_by_it() -> None:
    """By the source of transformers: the attributes that its models pass on as soft cap or sinks."""
    import transformers

    found = {
        name
        for file in (Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")
        for name in re.findall(r"\b(?:softcap|s_aux)=self\.(\w+)", file.read_text("utf-8"))
    }
    assert found and found <= set(torch_model.STRANGE)


def test_ids_with_gaps_are_drawn_to_the_highest(tiny_spec: Spec, tmp_path: Path) -> None:
    spec = tiny_spec("llama")
    for file in spec.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    ids = {"<think>": 449, "</think>": 450}
    content["added_tokens"] = [
        {**token, "id": ids.get(token["content"], token["id"])} for token in content["added_tokens"]
    ]
    content["model"]["vocab"] |= ids
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    engine = load(replace(spec, source=f"path:{tmp_path}"))
    grammar = Grammar.build(terms.obj({"a": terms.text(4)}))
    sampling = Sampling(max_tokens=40, think_tokens=6, temperature=1.0, seed=5)
    messages = (Message("user", "what is it?"),)
    tickets = {engine.submit(Request(messages, given, sampling, think=True)) for given in (grammar, None)}
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    assert all(1 <= (reply.usage.thinking_tokens or 0) <= 7 for reply in done.values())
    assert done[min(tickets)].valid


def test_forced_text_is_read_in_one_step(tiny_spec: Spec) -> None:
    engine = load(tiny_spec("llama"))
    long = "the quick brown fox jumps over the lazy dog"
    engine.submit(ask("x", Grammar.build(terms.alt([terms.const(long), terms.const("no")])), max_tokens=90, seed=1))
    done: list[tuple[int, Completion]] = []
    while not done:
        done = engine.step()
    (_, completion), *_ = done
    assert completion.valid
    if completion.text != '"no"':
        assert (completion.usage.forced_tokens or 0) > 3


def test_the_dtypes_that_a_device_has_are_measured(tiny_spec: Spec) -> None:
    assert set(measure_dtype(tiny_spec("hybrid"))) == {"float32", "bfloat16"}
