"""One HTTP call, and the line that it is made on: what lets another thread end it.

`exchange` connects, sends, reads to the end and closes; no redirect is followed, no proxy asked, and nothing is kept.
Whatever goes wrong is raised as it comes; what it means is `openai_wire.py`'s to say.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event
from time import monotonic
from urllib.parse import urlsplit

from nightschool.disk.errors import Problem

CONNECT_SECONDS = 10.0
MOST_BYTES = 64 << 20
"""Of one answer: an endless one must not fill the memory."""
_CHUNK = 1 << 16


class Ended(Exception):
    """Somebody ended the line; nobody waits for what was asked on it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. `base` is the path of its OpenAI endpoints, `root` that of whatever else it has."""

    scheme: str
    host: str
    port: int
    base: str
    root: str

    @classmethod
    def of(cls, source: str, where: str) -> Address:
        """The address in a source; `where` it stands is named in Problems."""
        try:
            parts = urlsplit(source)
            port = parts.port
        except ValueError:
            raise Problem(f"{where} is no address", "write http://HOST:PORT/v1") from None
        if parts.username is not None or parts.password is not None:
            raise Problem(f"{where} holds a name or a key", "name the variable that holds the key: api_key_env")
        if not parts.hostname or parts.query or parts.fragment:
            raise Problem(f"{where} is no address of a server", "write http://HOST:PORT/v1")
        base = parts.path.rstrip("/") or "/v1"
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], base, base.removesuffix("/v1"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def path(self, name: str) -> str:
        """The path of an endpoint: `/name` is beside the OpenAI ones, `name` one of them."""
        return f"{self.root}{name}" if name.startswith("/") else f"{self.base}/{name}"


_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Message
    body: bytes


class Line:
    """The calls of one request, one after the other, and the pauses between them."""

    def __init__(self) -> None:
        self._over = Event()
        self._socket: socket.socket | None = None
        self._deadline = float("inf")

    def end(self) -> None:
        """Whoever waits on this line gets Ended, now or at the next call."""
        self._over.set()
        self._shut()

    def expire(self) -> None:
        """Hang up if the call has taken longer than it may: one that gets a byte now and then never times out."""
        if monotonic() > self._deadline:
            self._shut()

    def check(self) -> None:
        """Raise Ended if the line is over."""
        if self._over.is_set():
            raise Ended

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than the line lasts."""
        if self._over.wait(seconds):
            raise Ended

    def hold(self, sock: socket.socket, deadline: float) -> None:
        """The call goes over this socket from now on."""
        self._socket, self._deadline = sock, deadline
        self.check()

    def release(self) -> None:
        """The call is over."""
        self._socket, self._deadline = None, float("inf")

    def _shut(self) -> None:
        if (sock := self._socket) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def exchange(
    address: Address,
    tls: ssl.SSLContext | None,
    path: str,
    payload: bytes | None,
    headers: Mapping[str, str],
    line: Line,
    seconds: float,
) -> Answer:
    """One call, POST if there is a payload. Raises OSError and HTTPException as they come, Ended when told to."""
    deadline = monotonic() + seconds
    connection = _connection(address, tls, min(seconds, CONNECT_SECONDS))
    with closing(connection):
        try:
            line.check()
            connection.connect()
            sock = connection.sock
            line.hold(sock, deadline)
            sock.settimeout(seconds)
            connection.request("GET" if payload is None else "POST", path, payload, dict(headers))
            with closing(connection.getresponse()) as response:
                return Answer(response.status, response.headers, _body(response, sock, deadline))
        except (OSError, HTTPException):
            line.check()
            if monotonic() >= deadline:
                raise TimeoutError from None
            raise
        finally:
            line.release()


def _connection(address: Address, tls: ssl.SSLContext | None, seconds: float) -> HTTPConnection:
    if tls is None:
        return HTTPConnection(address.host, address.port, timeout=seconds)
    return HTTPSConnection(address.host, address.port, timeout=seconds, context=tls)


def _body(response: HTTPResponse, sock: socket.socket, deadline: float) -> bytes:
    """All of an answer, in time."""
    body = bytearray()
    while True:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        part = response.read1(_CHUNK)
        body += part
        if not part:
            break
        if len(body) > MOST_BYTES:
            raise HTTPException("its answer has no end")
    if response.length:
        raise HTTPException("it hung up in the middle of its answer")
    return bytes(body)
