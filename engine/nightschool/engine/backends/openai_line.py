"""One HTTP call, and the line that it is made on: what lets another thread end it.

`exchange` connects, sends, reads to the end and closes; no redirect is followed, no proxy asked, and nothing is kept. A
call has one deadline for all that it does: a server that gives a byte now and then does not outlast it, whether in its
headers, its interim answers or the trailers of its chunks. Whatever goes wrong is raised as it comes; what it means is
`openai_wire.py`'s to say.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CONNECT_SECONDS = 10.0
MOST_BYTES = 16 << 20
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
        if not _sendable(parts.hostname, parts.path) or parts.query or parts.fragment:
            raise Problem(f"{where} is no address of a server", "write http://HOST:PORT/v1")
        base = parts.path.rstrip("/") or "/v1"
        return cls(parts.scheme, str(parts.hostname), port or _PORTS[parts.scheme], base, base.removesuffix("/v1"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def path(self, name: str) -> str:
        """The path of an endpoint: `/name` is beside the OpenAI ones, `name` one of them."""
        return f"{self.root}{name}" if name.startswith("/") else f"{self.base}/{name}"


_PORTS = {"http": 80, "https": 443}


def _sendable(host: str | None, path: str) -> bool:
    """Whether a host can be looked up, and a path written into a request."""
    try:
        return bool((host or "").encode("idna")) and path.isascii() and path.isprintable() and " " not in path
    except UnicodeError:
        return False


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

    def end(self) -> None:
        """Whoever waits on this line gets Ended, now or at the next call."""
        self._over.set()
        if (sock := self._socket) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def check(self) -> None:
        """Raise Ended if the line is over."""
        if self._over.is_set():
            raise Ended

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than the line lasts."""
        if self._over.wait(seconds):
            raise Ended

    def hold(self, sock: socket.socket) -> None:
        """The call goes over this socket from now on."""
        self._socket = sock
        self.check()

    def release(self) -> None:
        """The call is over."""
        self._socket = None


class _Timed:
    """A socket as http.client uses it, whose sends and reads end at a deadline, all together."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def sendall(self, data: bytes) -> None:
        """Send all of it, in time."""
        left = memoryview(data)
        while left:
            left = left[self.in_time().send(left) :]

    def makefile(self, mode: str) -> BufferedReader:
        """What comes back."""
        return BufferedReader(_Reader(self))

    def close(self) -> None:
        """Whoever opened the socket closes it: http.client would before the answer is read."""

    def in_time(self) -> socket.socket:
        """The socket, for what is left of the time."""
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._sock


class _Reader(RawIOBase):
    """What comes over a socket, in time."""

    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._timed.in_time().recv_into(buffer)


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
    connection: Any = _connection(address, tls, min(seconds, CONNECT_SECONDS))
    try:
        line.check()
        connection.connect()
        with closing(connection.sock) as sock:
            line.hold(sock)
            connection.sock = _Timed(sock, deadline)
            connection.request("GET" if payload is None else "POST", path, payload, dict(headers))
            with closing(connection.getresponse()) as response:
                return Answer(response.status, response.headers, _body(response))
    except Exception:  # a line that ends under a TLS call makes it fail in ways of its own
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


def _body(response: HTTPResponse) -> bytes:
    """All of an answer."""
    body = bytearray()
    while part := response.read1(_CHUNK):
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException("its answer has no end")
    if response.length:
        raise HTTPException("it hung up in the middle of its answer")
    return bytes(body)
