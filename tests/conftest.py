"""Every test runs sealed, in a home of its own, and without the colours or settings of whoever runs it.

Here is also the server that tests of engine and loop talk to. The seal is an audit hook for good: it holds for the whole
session, and for every Python child, which finds it on its PYTHONPATH. A test that starts a child which may use the network
(none does so far) must take both out of its environment; one that tries the seal itself runs in a child with an environment
of its own.
"""

import json
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nightschool.engine import offline
from nightschool.engine.folders import cache_home
from nightschool.engine.models import ModelSpec, load_models

PERSONAL = (
    *(
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "PY_COLORS",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "COLUMNS",
        "LINES",
    ),
    *("NIGHTSCHOOL_MODEL", "NIGHTSCHOOL_MODELS", "NIGHTSCHOOL_CONFIG", "NIGHTSCHOOL_DEBUG"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
REAL_CACHE = cache_home()
"""Where `make test` has pulled the real small model to."""
MODEL = "smollm2-135m"


def pytest_configure() -> None:
    offline.seal()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ready = load_models(cwd=Path(__file__).parent).get(MODEL).ready
    skip = pytest.mark.skip(reason=f"{MODEL} is not here: nightschool models pull {MODEL}")
    for item in items:
        if item.get_closest_marker("model") and not ready:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    homes = tmp_path_factory.mktemp("homes")
    return (homes / str(number) for number in range(10**9))


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest, _homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own; `model` tests alone see the models that were pulled."""
    for name in PERSONAL:
        monkeypatch.delenv(name, raising=False)
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_HOME", str(home / "huggingface"))
    real = request.node.get_closest_marker("model") is not None
    monkeypatch.setenv("NIGHTSCHOOL_HOME", str(REAL_CACHE if real else home / "nightschool"))
    assert offline.sealed() and os.environ[offline.MARK] == ""


class Answering(BaseHTTPRequestHandler):
    """One call; the FakeServer says what comes of it."""

    fake: "FakeServer"

    def do_GET(self) -> None:
        self.fake.get(self)

    def do_POST(self) -> None:
        self.fake.post(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, status: int, value: Any, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, told in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), told)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Listening(ThreadingHTTPServer):
    """Takes calls, and can hang up on all of them."""

    daemon_threads = True
    request_queue_size = 256

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self.calls = getattr(self, "calls", set()) | {request}
        super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is no error."""


class FakeServer:
    """Speaks the OpenAI protocol as vLLM does, but has no model: it draws uniformly what a grammar allows.

    `forms` are the ways in which it takes grammars, `free` what it says without one, `script` what it says instead of
    drawing (None: it draws); each of `troubles` takes the place of one reply; `bodies` is what it was asked.
    """

    def __init__(self) -> None:
        from nightschool.engine.vocabulary import Vocabulary

        self.forms, self.maker, self.context, self.key = {"structured_outputs"}, "vllm", 4096, ""
        self.counts = "vllm"
        self.free: Callable[[Any], str] = lambda body: "Hello!"
        self.script: Callable[[Any, Any], str | None] = lambda body, grammar: None
        self.extra: dict[str, Any] = {}
        """What goes into the message besides its content."""
        self.troubles: deque[Callable[[Any], None]] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.host, self.port, self.scheme = "127.0.0.1", 0, "http"
        self.model = "served"
        self.over = threading.Event()
        self._vocabulary, self._lock = Vocabulary.of_bytes(), threading.Lock()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/v1"

    def spec(self, **options: Any) -> ModelSpec:
        keys = {key: options.pop(key) for key in ("context", "template", "thinking", "sampling") if key in options}
        options = {"backoff": 0.001, **options}
        return ModelSpec("far", self.url, **{"context": 4096, **keys}, backend="openai", options=options)

    def start(self, certificate: Path | None = None) -> None:
        self.over.clear()
        handler = type("Handler", (Answering,), {"fake": self})
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = type("Listening", (Listening,), {"address_family": family})
        self._server = listening((self.host, self.port), handler)
        self.port = self._server.server_address[1]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket, self.scheme = context.wrap_socket(self._server.socket, server_side=True), "https"
        threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True).start()

    def stop(self) -> None:
        """As if it were killed."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        for call in getattr(self._server, "calls", ()):
            with suppress(OSError):
                call.shutdown(socket.SHUT_RDWR)

    def get(self, call: Answering) -> None:
        self.paths.append(call.path)
        listed = {"id": self.model, "owned_by": self.maker, "max_model_len": self.context}
        known = {"/v1/models": {"data": [listed]}, "/version": {"version": "0.32.0"}}
        if call.path == "/v1/models" and not self._lets(call):
            call.answer(401, {"error": {"message": f"bad key {call.headers.get('Authorization')}"}})
        elif call.path in known:
            call.answer(200, known[call.path])
        else:
            call.answer(404, {"detail": "Not Found"})

    def post(self, call: Answering, body: dict[str, Any]) -> None:
        self.paths.append(call.path)
        if not self._lets(call):
            call.answer(401, {"error": {"message": f"bad key {call.headers.get('Authorization')}"}})
        elif call.path in ("/v1/chat/completions", "/v1/completions"):
            with self._lock:
                self.bodies.append(body)
                trouble = self.troubles.popleft() if self.troubles else None
            if trouble is not None:
                trouble(call)
            else:
                call.answer(200, self.reply(body))
        else:
            told = self._count(call.path, body)
            call.answer(404 if told is None else 200, told or {"detail": "Not Found"})

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        text, finish = self._text(body)
        ids = body.get("prompt")
        count = self.tokens(body["messages"]) if ids is None else len(ids)
        usage = {"prompt_tokens": count, "completion_tokens": len(text) + 1}
        message: dict[str, Any] = {"text": text} if ids is not None else {"message": {"content": text, **self.extra}}
        return {"model": self.model, "choices": [{**message, "finish_reason": finish}], "usage": usage}

    def tokens(self, messages: list[dict[str, str]]) -> int:
        """What stands for the tokens of a conversation: its words, and three a turn."""
        return sum(len(message["content"].split()) + 3 for message in messages) + 3

    def _lets(self, call: Answering) -> bool:
        return not self.key or call.headers.get("Authorization") == f"Bearer {self.key}"

    def _count(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        if path == "/tokenize" and self.counts == "vllm":
            words = body["prompt"].split() if "prompt" in body else None
            return {"count": self.tokens(body["messages"]) if words is None else len(words)}
        if path == "/apply-template" and self.counts == "llama.cpp":
            return {"prompt": "x " * self.tokens(body["messages"])}
        if path == "/tokenize" and self.counts == "llama.cpp":
            return {"tokens": body.get("content", "").split()}
        return None

    def _text(self, body: dict[str, Any]) -> tuple[str, str]:
        from nightschool.engine.grammar import Grammar

        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        lark = body.get("structured_outputs", {}).get("grammar") if "structured_outputs" in self.forms else None
        lark = body.get("guided_grammar") if "guided_grammar" in self.forms else lark
        if schema is not None and "json_schema" in self.forms:
            text, finish = self._drawn(Grammar.from_schema(schema), body)
            # as such servers do: with white space, and the keys in an order of their own
            return (json.dumps(json.loads(text), indent=1, sort_keys=True) if finish == "stop" else text), finish
        scripted = self.script(body, None if lark is None else Grammar(lark, 1, 0))
        if scripted is not None:
            return scripted, "stop"
        return (self.free(body), "stop") if lark is None else self._drawn(Grammar(lark, 1, 0), body)

    def _drawn(self, grammar: Any, body: dict[str, Any]) -> tuple[str, str]:
        from nightschool.engine.backends.uniform import UniformEngine
        from nightschool.engine.models import scripted_spec
        from nightschool.engine.types import Request, Sampling

        with self._lock:
            engine = UniformEngine(scripted_spec(1 << 20), self._vocabulary)
            engine.submit(Request((), grammar, Sampling(body["max_tokens"], seed=body.get("seed", len(self.bodies)))))
            while not (done := engine.step()):
                pass
        return done[0][1].text, done[0][1].finish


@pytest.fixture
def servers() -> Iterator[Callable[[], FakeServer]]:
    """Starts servers, and stops them in the end."""
    running: list[FakeServer] = []

    def make(certificate: Path | None = None, host: str = "127.0.0.1") -> FakeServer:
        made = FakeServer()
        made.host = host
        made.start(certificate)
        running.append(made)
        return made

    yield make
    for server in running:
        server.stop()


@pytest.fixture
def server(servers: Callable[[], FakeServer]) -> FakeServer:
    return servers()
