"""How the openai backend fails, and what it never tells: against a server in a thread that does everything wrong."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.engine import terms
from nightschool.engine.backends import openai_line
from nightschool.engine.backends.openai import load
from nightschool.engine.backends.openai_line import Line
from nightschool.engine.backends.openai_pool import Pool
from nightschool.engine.grammar import Grammar
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, EngineError, Message, Request, Sampling

KEY = "sk-do-not-tell-anyone-0123456789"
PICK = Grammar.build(terms.obj({"pick": terms.choice(["red", "green", "blue"])}))


def ask(text: str, grammar: Grammar | None = None, *, think: bool = False, **sampling: Any) -> Request:
    return Request((Message("user", text),), grammar, Sampling(**{"max_tokens": 200, **sampling}), think)


def finish(engine: Any, tickets: int) -> dict[int, Completion]:
    done: dict[int, Completion] = {}
    while len(done) < tickets:
        done.update(engine.step())
    return done


def one(engine: Any, request: Request) -> Completion:
    ticket = engine.submit(request)
    return finish(engine, 1)[ticket]


# How it fails


def hang(server: Any) -> Callable[[Any], None]:
    return lambda call: server.over.wait(60)


def drop(call: Any) -> None:
    call.wfile.write(b'HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": [')


def chunked(body: bytes) -> Callable[[Any], None]:
    return lambda call: call.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)


def says(status: int, value: Any, **headers: str) -> Callable[[Any], None]:
    return lambda call: call.answer(status, value, **headers)


PASSING: Mapping[str, Callable[[Any], None]] = {
    "500": says(500, {"error": {"message": "engine died"}}),
    "503": says(503, b"<html>busy</html>"),
    "429": says(429, {"error": "slow down"}, Retry_After="0"),
    "not JSON": says(200, b"<html>hello</html>"),
    "not text": says(200, b"\xff\xfe\x00"),
    "deep": says(200, b"[" * 100_000),
    "another JSON": says(200, {"error": "no"}),
    "a list": says(200, [1, 2]),
    "no choices": says(200, {"choices": []}),
    "no text": says(200, {"choices": [{"message": {"content": [1]}, "finish_reason": "stop"}]}),
    "an end of its own": says(200, {"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}]}),
    "dropped": drop,
    "dropped in a chunk": chunked(b"40\r\n{"),
    "a chunk of less than nothing": chunked(b"-5\r\n{}\r\n0\r\n\r\n"),
    "a chunk of no size": chunked(b"zz\r\n{}\r\n0\r\n\r\n"),
    "a chunk without an end": chunked(b"f" * 60_000 + b"\r\n{}"),
    "a size without an end": chunked(b"0" * 100_000),
    "a length that is none": says(200, b"<html>", Content_Length="-1"),
    "a length that is too long": says(200, b"{}", Content_Length="9" * 5000),
    "a length beyond what comes": says(200, b"{}", Content_Length="99999999999"),
    "packed": says(200, b"\x1f\x8b\x08\x00", Content_Encoding="gzip"),
    "headers without an end": lambda call: call.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500),
    "no answer": lambda call: None,
    "502": says(502, b""),
    "not HTTP": lambda call: call.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n"),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again(server: Any, engines: Any, name: str) -> None:
    engine = engines(server.spec())
    server.troubles.extend([PASSING[name]] * 2)
    before = len(server.bodies)
    completion = one(engine, ask("x", PICK))
    assert completion.valid and completion.refused == 0 and len(server.bodies) == before + 3


@pytest.mark.parametrize("name", PASSING)
def test_what_does_not_pass_is_a_failed_machine(server: Any, engines: Any, name: str) -> None:
    engine = engines(server.spec(retries=1))
    server.troubles.extend([PASSING[name]] * 2)
    before = len(server.bodies)
    engine.submit(ask("x", PICK))
    with pytest.raises(EngineError, match=rf"^the server at http://127\.0\.0\.1:{server.port} failed: .*\(2 tries\)"):
        finish(engine, 1)
    assert len(server.bodies) == before + 2
    assert one(engine, ask("y", PICK)).valid


def test_a_server_that_hangs_is_hung_up_on(server: Any, engines: Any) -> None:
    engine = engines(server.spec(timeout=0.6, retries=3))
    server.troubles.append(hang(server))
    engine.submit(ask("x"))
    with pytest.raises(EngineError, match=r"no answer within 0\.6 s"):
        finish(engine, 1)


DRIPS = {
    "headers": (b"HTTP/1.0 200 OK\r\n", b"X-Y: z\r\nX-"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": (b"HTTP/1.0 200 OK\r\n\r\n", b"{"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n"),
    "the size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X-Y: z\r\n"),
}


def drip(server: Any, name: str) -> Callable[[Any], None]:
    first, then = DRIPS[name]

    def answer(call: Any) -> None:
        call.wfile.write(first)
        while not server.over.wait(0.02):
            call.wfile.write(then)

    return answer


@pytest.mark.parametrize("name", DRIPS)
def test_an_answer_that_drips_is_hung_up_on(server: Any, engines: Any, name: str) -> None:
    """Whatever drips, and whether a night waits for a reply, a count or the first look at the server."""
    engine = engines(server.spec(timeout=0.3, retries=0))
    server.troubles.append(drip(server, name))
    engine.submit(ask("x"))
    with pytest.raises(EngineError, match=r"no answer within 0\.3 s"):
        finish(engine, 1)
    server.post = lambda call, body: drip(server, name)(call)
    with pytest.raises(EngineError, match=r"no answer within 0\.3 s"):
        engine.submit(ask("counted first"))
    server.get = drip(server, name)
    with pytest.raises(EngineError, match=r"no answer within 0\.3 s"):
        load(server.spec(timeout=0.3, retries=0))


def test_an_answer_without_an_end_does_not_fill_the_memory(
    server: Any, engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_line, "MOST_BYTES", 100_000)
    engine = engines(server.spec(retries=0))
    server.troubles.append(says(200, b"x" * 1_000_000))
    engine.submit(ask("x"))
    with pytest.raises(EngineError, match="its answer has no end"):
        finish(engine, 1)


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("7", 7.0),
        ("100000", 60.0),
        ("-3", 0.0),
        ("soon", 0.0),
        ("date", 20.0),
        ("", 0.0),
        ("nan", 0.0),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", 0.0),
    ],
)
def test_a_server_that_asks_for_time_gets_it(
    server: Any, engines: Any, monkeypatch: pytest.MonkeyPatch, told: str, asked: float
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(Line, "pause", lambda line, seconds: pauses.append(seconds))
    engine = engines(server.spec())
    if told == "date":
        told = format_datetime(datetime.now(UTC) + timedelta(seconds=21), usegmt=True)
    server.troubles.append(says(429, {"error": "slow down"}, Retry_After=told))
    assert one(engine, ask("x")).valid
    assert len(pauses) == 1 and pauses[0] == pytest.approx(asked, abs=1.5 if asked == 20 else 0.01)


def test_pauses_double_and_have_a_seeded_jitter(server: Any, engines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(Line, "pause", lambda line, seconds: pauses.append(seconds))
    engine = engines(server.spec(backoff=1.0, retries=7))
    for _ in range(2):
        server.troubles.extend([PASSING["500"]] * 7)
        assert one(engine, ask("x", seed=11, temperature=1.0)).valid
    assert pauses[:7] == pauses[7:]
    for pause, most in zip(pauses, (1, 2, 4, 8, 16, 30, 30), strict=False):
        assert most / 2 <= pause <= most


def test_no_server_at_all(server: Any) -> None:
    spec = server.spec(retries=2)
    server.stop()
    with pytest.raises(EngineError, match=r"it cannot be reached \(Connection refused\) \(3 tries\)") as caught:
        load(spec)
    assert caught.value.exit_code == 3
    server.start()


def test_a_server_that_is_gone_fails_after_what_had_come(server: Any, engines: Any) -> None:
    engine = engines(server.spec(retries=1), width=1)
    submitted = threading.Event()
    server.troubles.append(lambda call: submitted.wait(60) and call.answer(200, server.reply(server.bodies[-1])))
    server.troubles.extend([lambda call: call.answer(200, server.reply(server.bodies[-1]))] * 2)
    server.troubles.append(lambda call: server.stop())
    tickets = [engine.submit(ask(f"question {i}")) for i in range(6)]
    submitted.set()
    done: dict[int, Completion] = {}
    with pytest.raises(EngineError, match="cannot be reached"):
        while True:
            done.update(engine.step())
    assert list(done) == tickets[:3]
    assert engine.step() == []
    server.start()
    assert one(engine, ask("again")).valid


@pytest.mark.parametrize("status", [400, 404, 413, 422, 501])
def test_what_no_repetition_mends_is_a_persons(server: Any, engines: Any, status: int) -> None:
    engine = engines(server.spec())
    before = len(server.bodies)
    server.troubles.append(says(status, {"error": {"message": "maximum context\nlength is 7"}}))
    engine.submit(ask("x"))
    with pytest.raises(Problem, match=f"answers {status} 'maximum context length is 7'") as caught:
        finish(engine, 1)
    assert not isinstance(caught.value, EngineError) and len(server.bodies) == before + 1


def test_a_redirect_is_not_followed(server: Any, servers: Any, engines: Any) -> None:
    other = servers()
    engine = engines(server.spec())
    server.troubles.append(says(307, {}, Location=f"{other.url}/chat/completions"))
    engine.submit(ask("x"))
    with pytest.raises(Problem, match=f"redirects to '{other.url}/chat/completions', which is not followed"):
        finish(engine, 1)
    assert other.paths == []


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 \x1b[2Jgone\r\n\r\n", b"HTTP/1.1 400 \x1b\r\n\r\n\x1b[2J\x9b", b"\x1b]0;title\x07"]
)
def test_what_a_server_says_does_nothing_to_a_terminal(server: Any, engines: Any, first: bytes) -> None:
    engine = engines(server.spec(retries=0))
    server.troubles.append(lambda call: call.wfile.write(first))
    engine.submit(ask("x"))
    with pytest.raises(Problem) as caught:
        finish(engine, 1)
    assert caught.value.what.isprintable()


def test_names_that_would_act_on_a_terminal_are_not_taken(server: Any) -> None:
    server.model = "served\x1b[2J"
    with pytest.raises(Problem, match="has no model"):
        load(server.spec())


def test_a_way_of_grammars_that_is_not_built_is_another_way_not_a_failure(server: Any, engines: Any) -> None:
    server.forms = {"json_schema"}
    server.troubles.extend([says(501, {"error": "not implemented"})] * 2)
    assert engines(server.spec()).facts()["grammar"] == "json_schema"


@pytest.mark.parametrize("asked", [ask("x"), ask("x", PICK)])
def test_a_server_that_changes_its_model_has_failed(server: Any, engines: Any, asked: Request) -> None:
    engine = engines(server.spec())
    assert one(engine, ask("x", PICK)).valid
    server.model = "another"
    engine.submit(asked)
    with pytest.raises(EngineError, match="changed its model: 'served' is now 'another'"):
        finish(engine, 1)


# The way to it


def test_no_proxy_of_the_environment_is_asked(server: Any, engines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert one(engines(server.spec(retries=0)), ask("x", PICK)).valid


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_this_machine_by_its_other_names(servers: Any, engines: Any, host: str) -> None:
    try:
        server = servers(host=host)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    assert one(engines(server.spec(retries=0)), ask("x", PICK)).valid


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_as_many_connections_as_requests_whatever_a_shell_allows(server: Any, engines: Any) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(list(Path("/dev/fd").iterdir()))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 20, hard))
        engine = engines(server.spec(retries=0), width=100)
        together = threading.Barrier(60, timeout=30)
        server.free = lambda body: f"{together.wait()}"
        tickets = [engine.submit(ask(f"question {i}")) for i in range(60)]
        assert set(finish(engine, 60)) == set(tickets)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_as_many_threads_as_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def limited(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    pool, done = Pool(8), list[int]()
    for number in range(9):
        pool.put(lambda number=number: done.append(number))  # type: ignore[misc]
    pool.close()
    assert sorted(done) == list(range(9)) and not any(thread.is_alive() for thread in started)


def test_another_machine_is_not_let_through() -> None:
    for source in ("http://192.0.2.1:8000/v1", "https://example.invalid/v1"):
        with pytest.raises(Problem, match="another machine, and was not let through") as caught:
            load(ModelSpec("far", source, backend="openai"))
        assert not isinstance(caught.value, EngineError)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that nobody has signed but itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate")
    key, made, both = tmp_path / "key.pem", tmp_path / "certificate.pem", tmp_path / "both.pem"
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, *named, "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + made.read_text())
    return both


def test_certificates_are_verified(
    servers: Any, engines: Any, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers(certificate)
    with pytest.raises(Problem, match=r"certificate of https://127\.0\.0\.1:\d+ cannot be verified: self.signed"):
        load(server.spec())
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert one(engines(server.spec()), ask("x", PICK)).valid
    assert server.paths


# What is never told


def test_the_key_is_in_no_text(
    server: Any, engines: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = KEY
    heard: list[str] = []
    texts: list[object] = []
    for variable, match in ((None, "wants a key"), ("UNSET_KEY", "no key in the variable UNSET_KEY")):
        with pytest.raises(Problem, match=match):
            load(server.spec(**({"api_key_env": variable} if variable else {})))
    monkeypatch.setenv("MY_KEY", f"{KEY}-old")
    with pytest.raises(Problem, match="does not take the key in MY_KEY") as caught:
        load(server.spec(api_key_env="MY_KEY"))
    texts += [str(caught.value), repr(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__)]
    monkeypatch.setenv("MY_KEY", KEY)
    engine = engines(server.spec(api_key_env="MY_KEY"), say=heard.append)
    assert one(engine, ask("x", PICK)).valid
    usual, server.free, server.forms = server.forms, lambda body: f"You sent {KEY}", set()
    with pytest.raises(Problem, match=r"it says 'You sent \(the key\)'") as caught:
        load(server.spec(api_key_env="MY_KEY"))
    texts += [str(caught.value)]
    server.forms = usual
    for trouble in (says(400, {"detail": f"bad {KEY}"}), says(302, b"", Location=f"http://x/?key={KEY}")):
        server.troubles.append(trouble)
        engine.submit(ask("x"))
        with pytest.raises(Problem) as caught:
            finish(engine, 1)
        assert "(the key)" in caught.value.what
        texts += [str(caught.value), repr(caught.value)]
    server.troubles.extend([says(500, f"no: {KEY}".encode()), says(200, KEY.encode())] * 3)
    engine.submit(ask("x"))
    with pytest.raises(EngineError) as failed:
        finish(engine, 1)
    texts += [str(failed.value), repr(engine), repr(vars(engine)), engine.facts(), engine.model, *heard, caplog.text]
    assert not any(KEY in str(text) for text in texts)
    assert not any(KEY in json.dumps(body) for body in server.bodies)


@pytest.mark.parametrize("value", ["two words", "with\nnewline", "näh"])
def test_what_is_no_key_is_not_sent(server: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(Problem, match="is no key") as caught:
        load(server.spec(api_key_env="MY_KEY"))
    assert value not in str(caught.value) and server.paths == []


def test_a_key_in_a_file_is_refused_and_not_repeated(server: Any) -> None:
    with pytest.raises(Problem, match="api_key_env is no name") as caught:
        load(server.spec(api_key_env=KEY))
    assert KEY not in str(caught.value)
    source = server.url.replace("127.0.0.1", f"me:{KEY}@127.0.0.1")
    with pytest.raises(Problem, match="holds a name or a key") as caught:
        load(replace(server.spec(), source=source))
    assert KEY not in str(caught.value)


def test_a_server_without_a_list_of_models(server: Any, engines: Any) -> None:
    usual = server.get
    for server.get in (says(404, {}), says(200, b""), says(301, b"", Location="http://192.0.2.1/login")):
        with pytest.raises(Problem, match=r"answers 404|nobody can make out|is not followed"):
            load(server.spec(retries=0))
    server.get = says(404, {})
    engine = engines(server.spec(model="served"))
    assert engine.facts()["versions"] == {} and one(engine, ask("x", PICK)).valid
    server.get = lambda call: usual(call) if call.path == "/v1/models" else says(302, b"", Location="/login")(call)
    assert engines(server.spec()).facts()["versions"] == {}


# Tickets and threads


def test_a_cancelled_request_is_hung_up_on_and_forgotten(server: Any, engines: Any) -> None:
    engine = engines(server.spec(), width=2)
    server.troubles.extend([hang(server)] * 2)
    gone = [engine.submit(ask(f"never {i}")) for i in range(2)]
    while server.troubles:
        assert engine.step() == []
    waiting = engine.submit(ask("later"))
    queued = engine.submit(ask("never sent"))
    for ticket in (*gone, queued, 999):
        engine.cancel(ticket)
    assert list(finish(engine, 1)) == [waiting]
    assert engine.step() == []
    assert "never sent" not in [body["messages"][0]["content"] for body in server.bodies]


def test_a_failure_of_a_cancelled_request_is_nobodys(server: Any, engines: Any) -> None:
    engine = engines(server.spec(retries=0))
    server.troubles.append(PASSING["500"])
    bad = engine.submit(ask("bad"))
    while server.troubles:
        pass
    engine.cancel(bad)
    assert one(engine, ask("good")).valid


def test_close_ends_everything_at_once(server: Any) -> None:
    before = set(threading.enumerate())
    engine = load(server.spec(), width=3)
    server.troubles.extend([hang(server)] * 3)
    for i in range(9):
        engine.submit(ask(f"x {i}"))
    while server.troubles:
        engine.step()
    engine.close()
    engine.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "server-call"]
    for use in (engine.step, lambda: engine.submit(ask("x"))):
        with pytest.raises(EngineError, match="not loaded any more"):
            use()
