"""One server, asked until it answers: bounded tries within a bounded time, and every failure told apart.

What may pass by itself (no connection, a connection lost, no answer in time, 408, 425, 429 and 5xx but 501, an answer
that nobody can make out) is tried again after a pause that doubles and has a seeded jitter, then it is an EngineError: a
failure of the machine. What no repetition mends (a refused key or request, a redirect, a certificate, a host that the
seal forbids) is a Problem at once. The key is in the headers alone, and is struck out of whatever the server says.
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from itertools import count
from time import monotonic
from typing import Any, TypeVar

from nightschool.disk.errors import Problem
from nightschool.engine.backends.openai_line import Address, Answer, Line, exchange
from nightschool.engine.backends.openai_options import Options, place
from nightschool.engine.models import ModelSpec
from nightschool.engine.offline import Sealed
from nightschool.engine.types import EngineError

T = TypeVar("T")

QUICK_SECONDS = 30.0
"""For whatever takes no model."""
MOST_PAUSE = 30.0
MOST_WAIT = 60.0
"""Seconds that a server may ask us to wait, by Retry-After."""
MAY_PASS = {408, 425, 429, *range(500, 600)} - {501}


class Refused(Problem):
    """The server will not do what it was asked, however often; `status` is its answer's."""

    def __init__(self, what: str, advice: str, status: int) -> None:
        super().__init__(what, advice)
        self.status = status


class Unclear(EngineError):
    """The server answers, but nobody can make out what."""


class _Passing(Exception):
    """A failure that may pass by itself, after so many seconds if the server tells; `final` is what it is if it does not."""

    def __init__(self, what: str, after: float = 0.0, final: type[EngineError] = EngineError) -> None:
        super().__init__(what)
        self.after, self.final = after, final


class Wire:
    """The way to one server. Any thread may ask; every call has a connection of its own."""

    def __init__(self, spec: ModelSpec, options: Options) -> None:
        """Nothing is connected yet. Problem if there is no key where one is said to be."""
        self.address = Address.of(spec.source, f"{spec.origin or 'models.toml'}: the source of {spec.alias}")
        self._place, self._options = place(spec), options
        self._key = _key(options.api_key_env, self._place)
        self._tls = ssl.create_default_context() if self.address.scheme == "https" else None

    def ask(
        self,
        name: str,
        body: Mapping[str, Any] | None,
        read: Callable[[Any], T],
        *,
        line: Line | None = None,
        seed: int = 0,
        quick: bool = False,
        retries: int | None = None,
    ) -> T:
        """What `read` makes of the JSON that an endpoint answers; GET without a body.

        `read` raises ValueError and its kin for what it cannot make out. `quick`: no model has to compute for it.
        """
        line, tries = line or Line(), 1 + (self._options.retries if retries is None else retries)
        seconds = min(self._options.timeout, QUICK_SECONDS) if quick else self._options.timeout
        jitter, over = random.Random(f"{seed} {name}"), monotonic() + self._options.timeout
        for attempt in count(1):
            try:
                return self._try(name, body, read, line, seconds)
            except _Passing as trouble:
                if attempt >= tries or monotonic() > over:
                    times = "" if attempt == 1 else f" ({attempt} tries)"
                    what = f"the server at {self.address} failed: {trouble}{times}"
                    raise trouble.final(what, "see to the server; the night can be resumed") from None
                pause = min(self._options.backoff * 2 ** (attempt - 1), MOST_PAUSE) * jitter.uniform(0.5, 1)
                line.pause(max(pause, trouble.after))
        raise AssertionError("count() has no end")

    def _try(
        self, name: str, body: Mapping[str, Any] | None, read: Callable[[Any], T], line: Line, seconds: float
    ) -> T:
        answer = self._call(name, body, line, seconds)
        self._judge(answer)
        try:
            return read(json.loads(answer.body))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            what = f"nobody can make out its answer {self._quoted(answer.body)}"
            raise _Passing(what, final=Unclear) from None

    def _call(self, name: str, body: Mapping[str, Any] | None, line: Line, seconds: float) -> Answer:
        headers = {"Accept": "application/json", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        payload = None if body is None else json.dumps(body).encode()
        path = self.address.path(name)
        try:
            return exchange(self.address, self._tls, path, payload, headers, line, seconds)
        except Sealed:
            raise Problem(
                f"{self.address.host} is another machine, and was not let through when this process was sealed",
                "only hosts that models.toml names as the source of a model are",
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise Problem(
                f"the certificate of {self.address} cannot be verified: {error.verify_message}",
                "name a file with its issuer's certificate in SSL_CERT_FILE",
            ) from None
        except (OSError, HTTPException) as error:
            raise _Passing(self.struck(_told(error, seconds))) from None

    def _judge(self, answer: Answer) -> None:
        """Raise for whatever is no success."""
        status, where = answer.status, f"the server at {self.address}"
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            target = self._quoted(str(answer.headers.get("Location", "")).encode())
            advice = "write that address as the source, if it is the right one"
            raise Problem(f"{where} redirects to {target}, which is not followed", advice)
        if status in MAY_PASS:
            raise _Passing(f"it answers {status} {self._quoted(answer.body)}", _retry_after(answer))
        if status in (401, 403):
            raise self._unauthorised(status)
        raise Refused(f"{where} answers {status} {self._quoted(answer.body)}", self._advice(answer), status)

    def _unauthorised(self, status: int) -> Problem:
        if (name := self._options.api_key_env) is None:
            advice = f'put its key into a variable, and write api_key_env = "NAME OF THE VARIABLE" in {self._place}'
            return Refused(f"the server at {self.address} wants a key ({status})", advice, status)
        what = f"the server at {self.address} does not take the key in {name} ({status})"
        return Refused(what, f"put another key into {name}", status)

    def _advice(self, answer: Answer) -> str:
        if answer.status == 404:
            return f"see to the source and the `model` of {self._place}"
        if b"context" in answer.body.lower():
            return f"lower `context` in {self._place} to what the server takes"
        return f"see to {self._place}, and to how the server was started"

    def _quoted(self, said: bytes) -> str:
        """The server's own words on one line, without the key."""
        flat = _flat(self.struck(_message(said)))
        return repr(flat if len(flat) <= 300 else f"{flat[:299]}…")

    def struck(self, text: str) -> str:
        """A text without the key, however it is spelled in it."""
        for spelling in (self._key, json.dumps(self._key)[1:-1]) if self._key else ():
            text = text.replace(spelling, "(the key)")
        return text


def _key(variable: str | None, where: str) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise Problem(
            f"{where}: there is no key in the variable {variable}", f"set {variable}, or leave api_key_env out"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Problem(f"{where}: what is in the variable {variable} is no key", "a key is one word of ASCII characters")
    return key


def _message(said: bytes) -> str:
    """What an error says: its message, wherever the server puts it, or all of it."""
    text = said[:100_000].decode("utf-8", "replace")
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("error", "message", "detail"):
        told = told.get(name, told) if isinstance(told, dict) else told
    return told if isinstance(told, str) else text


def _told(error: Exception, seconds: float) -> str:
    """A failed call, in words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, RemoteDisconnected | IncompleteRead | ConnectionResetError | BrokenPipeError):
        return "it hung up in the middle of its answer"
    if isinstance(error, socket.gaierror):
        return f"its name is not known ({error.strerror})"
    if isinstance(error, OSError):
        return f"it cannot be reached ({error.strerror or type(error).__name__})"
    return _flat(str(error))[:200] or type(error).__name__


def _flat(text: str) -> str:
    """A text on one line; whatever would act on a terminal is left out."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _retry_after(answer: Answer) -> float:
    """Seconds that the server asks us to wait, within bounds."""
    told = str(answer.headers.get("Retry-After", "")).strip()
    try:
        return min(max(float(told), 0.0), MOST_WAIT)
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(told)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return min(max((when - datetime.now(UTC)).total_seconds(), 0.0), MOST_WAIT)
    except (ValueError, OverflowError):
        return 0.0
