"""One request to a completion: asked, judged by our own matcher, and asked again if it does not fit.

A reply that is complete but not in its grammar is refused, and the model asked again, AGAIN times at most: the chat
endpoint with the refused reply and the reason after the conversation, the completions endpoint with another seed. A reply
that was cut is not asked again here: a longer budget is the caller's to give. What came of it all is one completion: its
usage is that of every try, `refused` counts the tries before the last, `valid` is the matcher's word on the last.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

from nightschool.engine.backends.openai_body import Said, added, conversation, drawing, read_chat, read_completion
from nightschool.engine.backends.openai_count import Counter, Local
from nightschool.engine.backends.openai_grammar import LARK, Form, complaint, constrain, settle
from nightschool.engine.backends.openai_line import Line
from nightschool.engine.backends.openai_server import Served
from nightschool.engine.backends.openai_wire import Wire
from nightschool.engine.models import ModelSpec
from nightschool.engine.types import Completion, EngineError, Message, PromptTooLong, Request, Usage
from nightschool.engine.vocabulary import thinking_lark

AGAIN = 2
SHOWN = 400
"""Characters of a refused reply that the model is shown."""
HEAT = 0.5
"""Of a request that is only drawn anew: a greedy one would say the same again."""
_STRIDE = 0x9E3779B1


class Talk:
    """How requests are put to one server. Any thread may use it."""

    def __init__(
        self, spec: ModelSpec, wire: Wire, served: Served, counter: Counter, *, chat: bool, form: Form = "retry"
    ) -> None:
        """`chat`: by the chat endpoint; else prompts are made here, and `counter` must be Local."""
        self.spec, self.wire, self.served, self.counter, self.form = spec, wire, served, counter, form
        self._local = None if chat or not isinstance(counter, Local) else counter
        self._answers = dict[str, str]()
        """Who answered first, by what was asked for: a server may write its model's name in a way of its own."""

    def complete(self, request: Request, line: Line, began: float | None = None) -> Completion:
        """The reply to a request. Raises Ended when the line is."""
        began = perf_counter() if began is None else began
        grammar, asked, spent = request.grammar, request, Usage(forced_tokens=None)
        for attempt in range(AGAIN + 1):
            said = self.say(asked, line)
            spent = added(spent, said.usage)
            text = said.text if grammar is None else settle(grammar, said.text)
            if grammar is None or text is not None or said.finish != "stop" or attempt == AGAIN:
                break
            asked = self._again(request, said.text, attempt + 1, line)
        return Completion(
            said.text if text is None else text,
            said.finish,
            spent,
            said.thinking,
            valid=said.finish == "stop" and text is not None,
            seconds=perf_counter() - began,
            refused=attempt,
        )

    def say(self, request: Request, line: Line) -> Said:
        """The server's reply to a request, as it is. EngineError if another model gives it than those before."""
        said = self._say(request, line)
        before = said.model and self._answers.setdefault(self.served.model, said.model)
        if said.model != before:
            raise EngineError(
                f"the server at {self.wire.address} has changed its model: {before!r:.80} is now {said.model!r:.80}",
                "load the first again; the night can be resumed",
            )
        return said

    def _say(self, request: Request, line: Line) -> Said:
        seed = request.sampling.seed
        if self._local is None:
            body, thinking = self._chat_body(request), self.spec.thinking
            return self.wire.ask(
                "chat/completions", body, lambda answer: read_chat(answer, thinking), line=line, seed=seed
            )
        body, opened = self._completion_body(request, self._local)
        return self.wire.ask("completions", body, lambda answer: read_completion(answer, opened), line=line, seed=seed)

    def check(self, request: Request) -> None:
        """Raise PromptTooLong for what does not fit the model's context, Problem for a grammar that cannot be sent."""
        if request.grammar is not None:
            constrain(self.form, request.grammar)
        prompt, reply = self.counter.count(request.messages, self._thinks(request)), self._longest(request)
        if prompt + reply <= self.spec.context:
            return
        sizes = [self.counter.text(message.content) for message in request.messages]
        at = max(range(len(sizes)), key=lambda index: sizes[index])
        raise PromptTooLong(
            f"the prompt has {prompt} tokens and the reply up to {reply}, but {self.spec.alias} takes {self.spec.context};"
            f" the longest part is message {at + 1} ({request.messages[at].role}) with {sizes[at]}",
            "shorten that part, or lower max_tokens",
        )

    def _thinks(self, request: Request) -> bool:
        """Whether the reply begins with thinking. A prompt made here can open it under a grammar only if Lark follows."""
        free = request.grammar is None or self._local is None or self.form in LARK
        return request.think and self.spec.thinking is not None and free

    def _longest(self, request: Request) -> int:
        """Tokens of the longest reply, thinking included."""
        return request.sampling.max_tokens + (request.sampling.think_tokens if self._thinks(request) else 0)

    def _chat_body(self, request: Request) -> dict[str, Any]:
        grammar = request.grammar
        return {
            "model": self.served.model,
            **conversation(request.messages, self.spec.thinking, request.think),
            "max_tokens": self._longest(request),
            **drawing(request.sampling, free=grammar is None, vllm=self.served.is_vllm),
            **({} if grammar is None else constrain(self.form, grammar)),
        }

    def _completion_body(self, request: Request, local: Local) -> tuple[dict[str, Any], Any]:
        """The body, and the thinking that its prompt opens."""
        grammar, thinks, source = request.grammar, self._thinks(request), None
        if thinks and grammar is not None and (thought := local.thought(request)) is not None:
            source = thinking_lark(grammar, thought)
        body = {
            "model": self.served.model,
            "prompt": local.encode(request.messages, thinks),
            "max_tokens": self._longest(request),
            **drawing(request.sampling, free=grammar is None, vllm=self.served.is_vllm, stops=local.chat.stops),
            **({} if grammar is None else constrain(self.form, grammar, source)),
            **({"skip_special_tokens": False} if thinks and self.served.is_vllm else {}),
        }
        return body, self.spec.thinking if thinks else None

    def _again(self, request: Request, text: str, attempt: int, line: Line) -> Request:
        """The request after a reply that did not fit."""
        assert request.grammar is not None
        seed = (request.sampling.seed + attempt * _STRIDE) % 2**31
        if self._local is None:
            shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
            told = Message("assistant", shown), Message("user", complaint(request.grammar, text))
            longer = replace(
                request, messages=(*request.messages, *told), sampling=replace(request.sampling, seed=seed)
            )
            prompt = self.counter.count(longer.messages, self._thinks(longer), line)
            if prompt + self._longest(longer) <= self.spec.context:
                return longer
        heat = max(request.sampling.temperature, HEAT)
        return replace(request, sampling=replace(request.sampling, seed=seed, temperature=heat))
