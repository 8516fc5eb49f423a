"""The vLLM backend with the real vLLM, on a CPU, on a tiny random model; skipped where vLLM is not installed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nightschool.disk.errors import Problem
from nightschool.engine import terms
from nightschool.engine.constraint import GrammarBatch
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.models import ModelSpec
from nightschool.engine.reply import Reply, thought_of
from nightschool.engine.types import (
    Completion,
    EngineError,
    Message,
    OutOfMemory,
    PromptTooLong,
    Request,
    Sampling,
)
from nightschool.engine.vocabulary import unpack

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make test-vllm")

SYSTEM = Message("system", "the quick brown fox jumps over the lazy dog and checks the staging cluster first. " * 5)
WIDTH = 24
Spec = Callable[..., ModelSpec]


@pytest.fixture(scope="module")
def engine(vllm_spec: Spec) -> Iterator[Any]:
    from nightschool.engine.backends.vllm import load

    made = load(vllm_spec(), width=WIDTH)
    yield made
    made.close()


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> dict[int, Reply]:
    """The finished replies, by ticket: their token ids are not part of a completion."""
    seen: dict[int, Reply] = {}
    original = Reply.completion

    def completion(self: Reply) -> Completion:
        seen[self.ticket] = self
        return original(self)

    monkeypatch.setattr(Reply, "completion", completion)
    return seen


def ask(text: str, grammar: Grammar | None = None, system: Message | None = SYSTEM, **sampling: Any) -> Request:
    messages = (Message("user", text),) if system is None else (system, Message("user", text))
    return Request(messages, grammar, Sampling(**sampling))


def finish(engine: Any, tickets: int) -> dict[int, Completion]:
    done: dict[int, Completion] = {}
    while len(done) < tickets:
        done.update(engine.step())
    return done


def run(engine: Any, *requests: Request) -> list[Completion]:
    tickets = [engine.submit(request) for request in requests]
    done = finish(engine, len(tickets))
    return [done[ticket] for ticket in tickets]


def grammars() -> list[Grammar]:
    """32 that all differ, some with a longest reply far above what the requests allow."""
    found = []
    for i in range(32):
        made = [
            lambda i: Grammar.build(terms.obj({"log": terms.text(5 + 8 * i, 1)})),
            lambda i: Grammar.build(
                terms.obj({"ids": terms.distinct([f"t{j}" for j in range(i + 3)], 1, 3), "ok": terms.boolean()})
            ),
            lambda i: Grammar.from_schema(
                {"type": "array", "items": {"enum": ["staging", "fox", f"n{i}"]}, "minItems": 1, "maxItems": 4}
            ),
            lambda i: Grammar.regex(f"[a-z]{{{i + 1}}}-[0-9]{{2}}"),
            lambda i: Grammar.choice([f"fox {i}", f"dog {i}", "<|im_end|>"]),
            lambda i: Grammar.from_lark(f'start: "a"{{1,{i + 1}}} ("b" | "c")', i + 3),
        ]
        found.append(made[i % 6](i))
    return found


def requests() -> list[Request]:
    """32 with a grammar of their own and 8 free, greedy and drawn."""
    made = []
    for i, grammar in enumerate(grammars()):
        heat: dict[str, Any] = {"temperature": (0.0, 0.7, 1.2)[i % 3], "top_p": (1.0, 0.9)[i % 2], "seed": i}
        made.append(ask(f"question {i} " * (1 + i % 5), grammar, max_tokens=60 + 2 * i, **heat))
    for i, length in enumerate((5, 9, 17, 33, 60, 90, 150, 400)):
        heat = {"temperature": (0.0, 0.8)[i % 2], "top_k": (0, 20)[i % 2], "seed": 100 + i}
        made.insert(i * 5, ask(f"tell {i}", None, None if i % 3 == 0 else SYSTEM, max_tokens=length, **heat))
    return made


def reference(spec: ModelSpec, prompt: list[int], ids: list[int]) -> Any:
    """Logits of transformers itself, without any cache, for each generated token."""
    import torch
    from transformers import AutoModelForCausalLM

    if spec.source not in _MODELS:
        _MODELS[spec.source] = AutoModelForCausalLM.from_pretrained(
            spec.folder, attn_implementation="eager", dtype=torch.float32
        ).eval()
    with torch.inference_mode():
        logits = _MODELS[spec.source](torch.tensor([prompt + ids]), use_cache=False).logits[0]
    return logits[len(prompt) - 1 : -1].float().numpy()


_MODELS: dict[str, Any] = {}


def check_against_reference(reply: Reply) -> None:
    """Teacher-forced: each token of a greedy reply is the best that a cache-free model finds under our own mask."""
    logits = reference(reply.chat.spec, reply.prompt, reply.ids)
    batch = GrammarBatch(reply.chat.vocabulary)
    sampling = reply.request.sampling
    batch.add(0, reply.request.grammar, sampling.max_tokens, thought_of(reply.chat, reply.request))
    for row, token in zip(logits, reply.ids, strict=True):
        allowed = unpack(batch.fill([0], spell=True)[0])[: len(row)]
        assert allowed[token]
        if sampling.temperature == 0:
            assert np.where(allowed, row, -np.inf).max() - row[token] < 2e-3
        if not batch.finished(0):
            batch.consume([0], [token])


def test_a_mixed_batch(engine: Any, replies: dict[int, Reply]) -> None:
    made = requests()
    tickets = [engine.submit(request) for request in made[:14]]
    done: dict[int, Completion] = {}
    for _ in range(4):
        done.update(engine.step())
    tickets += [engine.submit(request) for request in made[14:]]
    for _ in range(3):
        done.update(engine.step())
    cancelled = {ticket for ticket in (tickets[2], tickets[20], tickets[38]) if ticket not in done}
    assert cancelled
    for ticket in cancelled:
        engine.cancel(ticket)
    engine.cancel(10_000)
    done.update(finish(engine, len(tickets) - len(cancelled) - len(done)))
    assert engine.step() == []
    assert set(done) == set(tickets) - cancelled
    for ticket, request in zip(tickets, made, strict=True):
        if ticket in cancelled:
            continue
        completion, reply = done[ticket], replies[ticket]
        assert completion.usage.generated_tokens == len(reply.ids) <= request.sampling.max_tokens
        assert completion.usage.prompt_tokens == len(reply.prompt) == engine.count(request.messages)
        assert max(reply.ids) < reply.chat.vocabulary.real, "what only pads the vocabulary is never drawn"
        if request.grammar is not None:
            assert completion.finish == "stop"
            assert completion.valid and accepts(request.grammar, completion.text)
        elif completion.finish == "length":
            assert not completion.valid
            assert completion.usage.generated_tokens == request.sampling.max_tokens
        check_against_reference(reply)


def test_a_reply_closes_inside_its_budget(engine: Any, replies: dict[int, Reply]) -> None:
    grammar = Grammar.build(terms.obj({"log": terms.text(2000, 30), "ids": terms.distinct(["t1", "t2", "t3"], 2, 3)}))
    assert grammar.limit > 2048
    made = [ask("x", grammar, max_tokens=60 + i, temperature=1.0, seed=i) for i in range(6)]
    for completion, request in zip(run(engine, *made), made, strict=True):
        assert completion.valid and (completion.usage.generated_tokens or 0) <= request.sampling.max_tokens
    for reply in replies.values():
        check_against_reference(reply)


def test_seeds_repeat_whatever_the_batch(engine: Any) -> None:
    grammar = Grammar.regex("[a-z ]{12}")
    made = [ask(f"q {i}", (None, grammar)[i % 2], max_tokens=20, temperature=1.0, seed=i) for i in range(8)]
    together = run(engine, *made)
    assert [completion.text for completion in run(engine, *made)] == [completion.text for completion in together]
    for request, completion in zip(made[:3], together, strict=False):
        assert run(engine, request)[0].text == completion.text
    other = replace(made[0], sampling=replace(made[0].sampling, seed=99))
    assert run(engine, other)[0].text != together[0].text


def test_what_is_cached_is_what_vllm_says(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, int] = {}
    step = engine._core.llm.step

    def watched() -> Any:
        outputs = step()
        told.update({int(output.request_id): output.num_cached_tokens for output in outputs if output.finished})
        return outputs

    monkeypatch.setattr(engine._core.llm, "step", watched)
    system = Message("system", "a prompt of its own that many share and that fills several blocks of the cache " * 6)
    run(engine, ask("first", system=system, max_tokens=2))
    tickets = [engine.submit(ask(f"then {i}", system=system, max_tokens=2)) for i in range(4)]
    done = finish(engine, 4)
    for ticket in tickets:
        assert done[ticket].usage.cached_tokens == told[ticket] >= 128


def test_thinking_is_bounded_and_kept_apart(engine: Any, replies: dict[int, Reply]) -> None:
    grammar = Grammar.build(terms.obj({"a": terms.text(8)}))
    messages = (Message("user", "think about </think> it"),)
    draws = [Sampling(max_tokens=40, think_tokens=12, temperature=2.0, seed=seed) for seed in range(4)]
    made = [Request(messages, given, draw, think=True) for draw in draws for given in (grammar, None)]
    done = run(engine, *made)
    for completion, request in zip(done, made, strict=True):
        assert 1 <= (completion.usage.thinking_tokens or 0) <= 13
        assert "</think>" not in completion.text
        spoken = (completion.usage.generated_tokens or 0) - (completion.usage.thinking_tokens or 0)
        assert spoken <= 40
        if request.grammar is not None:
            assert completion.valid and accepts(grammar, completion.text), "what ends the thinking is no part of it"
    assert any(completion.thinking for completion in done)
    for reply in replies.values():
        check_against_reference(reply)


def test_stop_strings_end_free_text_and_leave_thinking_alone(engine: Any) -> None:
    for think in (False, True):
        request = replace(ask("x", max_tokens=60, think_tokens=9, temperature=1.0, seed=1), think=think)
        (whole,) = run(engine, request)
        found = re.search(r"[ -~]{3}", whole.text[len(whole.text) // 3 :])
        assert found
        stops = (found.group(), "never there", *([whole.thinking[:4]] if whole.thinking else []))
        (cut,) = run(engine, replace(request, sampling=replace(request.sampling, stop=stops)))
        at = min(whole.text.index(stop) for stop in stops if stop in whole.text)
        assert (cut.text, cut.finish, cut.valid) == (whole.text[:at], "stop", True)
        assert cut.thinking == whole.thinking


def test_a_repetition_penalty_changes_free_text_only(engine: Any) -> None:
    grammar = Grammar.regex("[a-z]{12}")
    texts = []
    for penalty in (1.0, 5.0):
        given = [ask("x x x", chosen, max_tokens=20, repetition_penalty=penalty) for chosen in (None, grammar)]
        texts.append([completion.text for completion in run(engine, *given)])
    assert texts[0][0] != texts[1][0]
    assert texts[0][1] == texts[1][1]


def test_a_prompt_that_does_not_fit_is_named(engine: Any) -> None:
    with pytest.raises(PromptTooLong, match=r"message 1 \(system\)"):
        engine.submit(ask("short", max_tokens=2000))
    with pytest.raises(Problem, match="max_tokens"):
        engine.submit(ask("short", Grammar.regex("[a-z]{40}"), None, max_tokens=2))
    assert run(engine, ask("short", None, None, max_tokens=4))[0].usage.generated_tokens


def test_a_grammar_that_is_refused_is_a_problem_and_no_more(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match=r"does not compile.*nowhere"):
        engine.submit(ask("x", Grammar("start: nowhere", 10, 1)))

    def refuse(*arguments: Any) -> None:
        raise ValueError("Grammar error: no rule 'b'\nat line 3")

    with (
        monkeypatch.context() as patch,
        pytest.raises(Problem, match=r"refuses the request: .*no rule 'b'\n") as caught,
    ):
        patch.setattr(engine._core.llm, "add_request", refuse)
        engine.submit(ask("x", Grammar.regex("[a-z]")))
    assert "line 3" not in str(caught.value)
    assert run(engine, ask("x", Grammar.regex("[a-z]"), max_tokens=4))[0].valid


def test_what_a_matcher_cannot_do_is_an_engine_error(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from nightschool.engine.constraint import Row

    def broken(self: Row) -> None:
        raise EngineError("the grammar's matcher failed: too complex", "simplify")

    with monkeypatch.context() as patch:
        patch.setattr(Row, "check", broken)
        engine.submit(ask("x", Grammar.regex("[a-z]{9}"), max_tokens=20))
        engine.submit(ask("x", None, max_tokens=400))
        with pytest.raises(EngineError, match="ended a reply with 'error'"):
            finish(engine, 2)
    assert engine.step() == []
    assert run(engine, ask("x", Grammar.regex("[a-z]{9}"), max_tokens=20))[0].valid


def test_a_dead_vllm_is_an_engine_error(engine: Any) -> None:
    from nightschool.engine.backends.vllm_core import Core
    from nightschool.engine.backends.vllm_engine import VLLMEngine

    for message, kind in (
        ("bad kernel\nat 0", EngineError),
        ("DefaultCPUAllocator: can't allocate memory", OutOfMemory),
    ):
        stopped: list[bool] = []

        def step(message: str = message) -> Any:
            raise RuntimeError(message)

        client = SimpleNamespace(shutdown=lambda told=stopped: told.append(True))
        llm = SimpleNamespace(add_request=lambda *given: None, step=step, engine_core=client)
        dead = VLLMEngine(engine._chat, Core(llm, "nowhere"), 4)
        dead.submit(ask("x"))
        with pytest.raises(kind, match=message.partition("\n")[0]):
            dead.step()
        assert stopped == [True]
        for use in (dead.step, lambda dead=dead: dead.submit(ask("x"))):
            with pytest.raises(EngineError, match="not loaded"):
                use()
        dead.close()


def test_a_vllm_that_dies_while_a_request_is_cancelled_is_found_at_the_next_step(engine: Any) -> None:
    from nightschool.engine.backends.vllm_core import Core
    from nightschool.engine.backends.vllm_engine import VLLMEngine

    def abort(tickets: list[str]) -> None:
        raise RuntimeError("EngineCore encountered an issue")

    client = SimpleNamespace(shutdown=lambda: None)
    llm = SimpleNamespace(add_request=lambda *given: None, abort_request=abort, engine_core=client)
    dying = VLLMEngine(engine._chat, Core(llm, "nowhere"), 4)
    tickets = [dying.submit(ask(f"{i}")) for i in range(2)]
    dying.cancel(tickets[0])
    with pytest.raises(EngineError, match="not loaded"):
        dying.step()


@pytest.mark.parametrize(
    "error",
    [
        ValueError(
            "Free memory on device cuda:0 (3.1/139.8 GiB) on startup is less than desired GPU memory utilization"
        ),
        ValueError("No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"),
        ValueError("(4.0 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB)"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
    ],
)
def test_a_device_that_is_full_is_a_failed_machine(
    vllm_spec: Spec, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from nightschool.engine.backends import vllm_core
    from nightschool.engine.backends.vllm import load
    from nightschool.engine.backends.vllm_grammar import SHARED

    def full(*arguments: Any) -> None:
        raise error

    before = dict(SHARED)
    monkeypatch.setattr(vllm_core, "_engine", full)
    with pytest.raises(OutOfMemory, match="has no room for tiny-llama") as caught:
        load(vllm_spec())
    assert caught.value.exit_code == 3 and before == SHARED


def test_facts_and_capacity(engine: Any, vllm_spec: Spec) -> None:
    import torch

    from nightschool.engine.backends.vllm import load

    facts = engine.facts()
    assert (facts["backend"], facts["dtype"], facts["width"]) == ("vllm", "float32", WIDTH)
    assert facts["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert {"torch", "transformers"} < set(facts["versions"])
    assert engine.capacity() == WIDTH
    assert not engine.batch_invariant
    with pytest.raises(Problem, match="float32"):
        load(vllm_spec(dtype="flaot32"))


@pytest.mark.parametrize(
    ("options", "what", "advice"),
    [
        ({"tensor_paralel": 2}, "unknown option 'tensor_paralel'", "'tensor_parallel'"),
        ({"gpu_memory": 1.5}, "gpu_memory should be less than or equal to 1, not 1.5", "docs/vllm.md"),
        ({"executor": "rai"}, "executor should be 'mp' or 'ray', not 'rai'", "docs/vllm.md"),
        ({"max_num_seqs": "9"}, "max_num_seqs should be a valid integer, not '9'", "docs/vllm.md"),
        ({"executor": "mp"}, "executor runs the parts of a model that is on several devices", "tensor_parallel"),
        ({"executor": "ray"}, "needs ray, which is not installed", "pip install ray"),
    ],
)
def test_options_are_read_strictly(vllm_spec: Spec, options: dict[str, object], what: str, advice: str) -> None:
    from nightschool.engine.backends.vllm import load

    with pytest.raises(Problem) as caught:
        load(vllm_spec(options=options))
    assert what in caught.value.what and "[models.tiny-llama.vllm]" in caught.value.what
    assert advice in caught.value.advice


def children() -> set[int]:
    """Processes that descend from this one, and run; without Python's own keeper of resources, which stays."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(entry.parent.name)] = int(fields[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {os.getpid()}} - found:
        found |= more
    return {pid for pid in found if b"resource_tracker" not in command(pid)}


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_second_model_has_processes_of_its_own_and_leaves_none(engine: Any, vllm_spec: Spec) -> None:
    from nightschool.engine.backends.vllm import load

    before = children()
    second = load(vllm_spec(options={"max_num_seqs": 8}))
    own = children() - before
    assert len(own) >= 2
    for pid in own:
        os.kill(pid, signal.SIGINT)  # as Ctrl-C does: only this process is to heed it
    long = Grammar.build(terms.obj({"log": terms.text(900, 30)}))
    thinking = replace(ask("x", long, max_tokens=50, think_tokens=5, temperature=1.0, seed=3), think=True)
    made = [*requests()[:12], ask("x", long, max_tokens=50), thinking]
    apart, inside = run(second, *made), run(engine, *made)
    assert all(one.valid for one, request in zip(apart, made, strict=True) if request.grammar)
    greedy = [i for i, request in enumerate(made) if request.sampling.temperature == 0]
    assert sum(apart[i].text == inside[i].text for i in greedy) >= len(greedy) - 1
    assert second.capacity() == second.facts()["width"] == 8
    second.close()
    gone(children() - before)
    assert run(engine, ask("x", Grammar.regex("[a-z]{9}"), max_tokens=20))[0].valid


def gone(processes: set[int]) -> None:
    """Wait for them to end."""
    deadline = time.monotonic() + 30
    while (left := {pid for pid in processes if running(pid)}) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SCRIPT = """
import multiprocessing
import sys
from nightschool.engine import offline
offline.seal()
from nightschool.engine.backends.vllm import load
from nightschool.engine.grammar import Grammar
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import EngineError, Message, Request, Sampling

if __name__ == "__main__":
    options = {"tensor_parallel": 2} if "two" in sys.argv else {}
    spec = ModelSpec("tiny", "path:" + sys.argv[1], context=512, dtype="float32", options=options)
    engine = load(spec, width=4)
    engine.submit(Request((Message("user", "x"),), Grammar.regex("[a-z]{9}"), Sampling(max_tokens=12)))
    done = []
    while not done:
        done = engine.step()
    assert done[0][1].valid
    print("done", flush=True)
    if "wait" in sys.argv:
        sys.stdin.read()
    if "kill" in sys.argv:
        for child in multiprocessing.active_children():
            child.kill()
        try:
            engine.submit(Request((Message("user", "x"),), None, Sampling(max_tokens=12)))
            while True:
                engine.step()
        except EngineError:
            print("lost", flush=True)
    engine.close()
"""
REACHES = re.compile(r"^\d+\s+(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?\b.*$", re.MULTILINE)
LOOPBACK = re.compile(r'inet_addr\("127\.|inet_pton\(AF_INET6, "::1"|inet_pton\(AF_INET6, "::ffff:127\.')


@pytest.fixture
def script(tmp_path: Path, vllm_spec: Spec) -> list[str]:
    """A few replies in a process of their own; stdout is for data."""
    (tmp_path / "script.py").write_text(SCRIPT)
    return [sys.executable, str(tmp_path / "script.py"), str(vllm_spec().folder)]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (apt-get install strace)")
def test_nothing_reaches_for_another_machine(script: list[str], tmp_path: Path) -> None:
    log = tmp_path / "calls"
    watched = ["strace", "-f", "--seccomp-bpf", "-e", "trace=network", "-o", str(log)]
    bare = {key: value for key, value in os.environ.items() if key not in ("NIGHTSCHOOL_SEALED", "PYTHONPATH")}
    ran = subprocess.run([*watched, *script], check=True, env=bare, capture_output=True, text=True)
    assert ran.stdout == "done\n"
    assert [line for line in REACHES.findall(log.read_text(errors="replace")) if not LOOPBACK.search(line)] == []


def unshares() -> bool:
    command = ["unshare", "-n", "sh", "-c", "ip link set lo up"]
    return all(map(shutil.which, ("unshare", "ip"))) and not subprocess.run(command, check=False).returncode


@pytest.mark.skipif(not unshares(), reason="needs unshare and ip, and the right to make an empty network")
def test_an_empty_network_is_enough(script: list[str]) -> None:
    command = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *script]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "done\n"


def test_an_engine_of_several_processes_that_dies_is_an_error_and_leaves_none(script: list[str]) -> None:
    before = children()
    ran = subprocess.run([*script, "two", "kill"], check=True, capture_output=True, text=True)
    assert ran.stdout == "done\nlost\n"
    gone(children() - before)


def test_nothing_outlives_a_killed_process(script: list[str]) -> None:
    before = children()
    process = subprocess.Popen([*script, "two", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "done\n"
    own = children() - before
    assert len(own) >= 4, "the process, vLLM's engine, and two workers"
    process.kill()
    process.communicate()
    gone(own)
