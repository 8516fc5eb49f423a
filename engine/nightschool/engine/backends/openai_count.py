"""Tokens of a prompt as the server will count them: by the model's own tokenizer and template, never estimated.

Either from a folder on this machine (`tokenizer`), by `chat.py` as in every other backend; or by the server: vLLM has
/tokenize for conversations, llama.cpp /apply-template and /tokenize. What was counted once is remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from threading import Lock
from typing import Any, Protocol, TypeVar

from nightschool.disk.errors import Problem
from nightschool.engine.backends.openai_line import Line
from nightschool.engine.backends.openai_options import Options, place, tokenizer_folder
from nightschool.engine.backends.openai_server import Served
from nightschool.engine.backends.openai_wire import Wire
from nightschool.engine.chat import Chat
from nightschool.engine.models import ModelSpec
from nightschool.engine.reply import thought_of
from nightschool.engine.types import EngineError, Message, Request
from nightschool.engine.vocabulary import Thought

T = TypeVar("T")

REMEMBERED = 4096
_TRIED = (Message("user", "Say hello."),)


class Counter(Protocol):
    """Counts prompts."""

    def count(self, messages: Sequence[Message], think: bool = False, line: Line | None = None) -> int:
        """Tokens of the prompt for the next reply."""

    def text(self, text: str) -> int:
        """Tokens of a text by itself."""


def counter_for(spec: ModelSpec, options: Options, wire: Wire, served: Served) -> Counter:
    """Who counts for this model; a Problem that says what is lacking if nobody can."""
    if options.tokenizer is not None:
        return Local(Chat(spec, tokenizer_folder(spec, options.tokenizer)))
    kinds: tuple[type[_Remote], ...] = (Tokenize, Template)
    for kind in kinds:
        counter = kind(wire, served.model, spec.thinking.kwarg if spec.thinking else None)
        try:
            if counter.works():
                return counter
        except EngineError:
            raise
        except Problem:
            continue
    raise Problem(
        f"the server of {spec.alias} does not count tokens",
        f'give {place(spec)} tokenizer = "DIR", a folder with the tokenizer.json and the chat template of the served model',
    )


class Local:
    """The model's tokenizer and template on this machine."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._lock = Lock()
        """A reply that is asked for again is encoded in the thread of its call."""

    def count(self, messages: Sequence[Message], think: bool = False, line: Line | None = None) -> int:
        """Tokens of the prompt for the next reply."""
        return len(self.encode(messages, think))

    def encode(self, messages: Sequence[Message], think: bool = False) -> list[int]:
        """The prompt for the next reply."""
        with self._lock:
            return self.chat.encode(messages, think).ids

    def thought(self, request: Request) -> Thought | None:
        """How the thinking of a request's reply ends; None if it does not think."""
        with self._lock:
            return thought_of(self.chat, request)

    def text(self, text: str) -> int:
        """Tokens of a text by itself."""
        return len(self.chat.tokens.plain(text))


class _Remote:
    """A server that counts."""

    def __init__(self, wire: Wire, model: str, kwarg: str | None) -> None:
        """`kwarg` is the template's switch for thinking."""
        self._wire, self._model, self._kwarg = wire, model, kwarg
        self._known: dict[bytes, int] = {}

    def count(self, messages: Sequence[Message], think: bool = False, line: Line | None = None) -> int:
        """Tokens of the prompt for the next reply."""
        key = hashlib.sha256(repr((tuple(messages), think)).encode("utf-8", "backslashreplace")).digest()
        if (known := self._known.get(key)) is not None:
            return known
        found = self._count(messages, think, line)
        if found < 1:
            raise EngineError("the server counts no tokens any more", "see to the server; the night can be resumed")
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = found
        return found

    def works(self) -> bool:
        """Whether the server counts in this way."""
        return self._count(_TRIED, False, None) > 0

    def _count(self, messages: Sequence[Message], think: bool, line: Line | None) -> int:
        """The server's count; 0 if it does not tell."""
        raise NotImplementedError

    def text(self, text: str) -> int:
        """Tokens of a text by itself."""
        raise NotImplementedError

    def _conversation(self, messages: Sequence[Message], think: bool) -> dict[str, Any]:
        turns = [{"role": message.role, "content": message.content} for message in messages]
        switch = {} if self._kwarg is None else {"chat_template_kwargs": {self._kwarg: think}}
        return {"model": self._model, "messages": turns, "add_generation_prompt": True, **switch}

    def _ask(self, name: str, body: dict[str, Any], key: str, kind: type[T], line: Line | None) -> T:
        """What an answer has at `key`; the kind's empty value if it has nothing of the kind."""

        def read(answer: Any) -> T:
            found = answer.get(key) if isinstance(answer, dict) else None
            return found if isinstance(found, kind) else kind()

        return self._wire.ask(name, body, read, line=line, quick=True)


class Tokenize(_Remote):
    """vLLM counts conversations by itself."""

    def text(self, text: str) -> int:
        """Tokens of a text by itself."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return self._ask("/tokenize", body, "count", int, None)

    def _count(self, messages: Sequence[Message], think: bool, line: Line | None) -> int:
        body = self._conversation(messages, think)
        return self._ask("/tokenize", body, "count", int, line)


class Template(_Remote):
    """llama.cpp renders a conversation, and tokenizes the text that it becomes."""

    def text(self, text: str) -> int:
        """Tokens of a text by itself."""
        return self._tokens({"content": text, "parse_special": False}, None)

    def _count(self, messages: Sequence[Message], think: bool, line: Line | None) -> int:
        body = self._conversation(messages, think)
        prompt = self._ask("/apply-template", body, "prompt", str, line)
        return self._tokens({"content": prompt, "add_special": True, "parse_special": True}, line) if prompt else 0

    def _tokens(self, body: dict[str, Any], line: Line | None) -> int:
        return len(self._ask("/tokenize", body, "tokens", list, line))
