"""The engine of the vLLM backend: requests go to vLLM as token ids and come back as token ids, by its add_request/step.

vLLM schedules, computes and samples; `chat.py` makes the prompts, `vllm_grammar.py` the masks, `reply.py` the texts.
vLLM draws with a seed a request, so texts repeat, but they are not those of the other backends at a temperature above 0.
How likely a reply is (`logprob`) and when its first token came are not asked for: both would cost at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from vllm.inputs.engine import tokens_input
from vllm.outputs import RequestOutput
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

from nightschool.disk.errors import Problem
from nightschool.engine.backends.vllm_core import Core, first_line, start, versions
from nightschool.engine.backends.vllm_grammar import ANYTHING, Terms, told
from nightschool.engine.backends.vllm_settings import arguments, read_options
from nightschool.engine.chat import Chat
from nightschool.engine.intake import is_out_of_memory
from nightschool.engine.models import ModelSpec
from nightschool.engine.reply import Reply, open_reply
from nightschool.engine.types import Completion, EngineError, Finish, Message, OutOfMemory, Request
from nightschool.engine.vocabulary import thinking_lark

FINISHES: dict[str, Finish] = {"stop": "stop", "length": "length", "abort": "cancelled"}


def open_model(spec: ModelSpec, width: int | None = None, say: Callable[[str], None] | None = None) -> VLLMEngine:
    """Load a model from its folder."""
    options = read_options(spec)
    given = arguments(spec, options, width, cpu=bool(current_platform.is_cpu()))
    chat = Chat(spec)
    return VLLMEngine(chat, start(chat, given, own_processes=options.devices > 1), int(given["max_num_seqs"]))


class VLLMEngine:
    """One loaded model; see `engine.Engine`."""

    batch_invariant = False

    def __init__(self, chat: Chat, core: Core, width: int) -> None:
        """`width` is the most rows of a batch."""
        self.model = chat.spec
        self._chat, self._width = chat, width
        self._core: Core | None = core
        self._open: dict[int, Reply] = {}
        self._done: list[tuple[int, Completion]] = []
        self._tickets = 0
        self._padded = chat.vocabulary.real < chat.width

    def submit(self, request: Request) -> int:
        """Queue a request."""
        reply = open_reply(self._tickets + 1, request, self._chat)
        params, llm = self._params(reply), self._running().llm
        try:
            llm.add_request(str(reply.ticket), tokens_input(reply.prompt), params)
        except ValueError as error:
            raise Problem(f"vLLM refuses the request: {first_line(error)}", "mend the grammar") from None
        except Exception as error:
            raise self._died(error) from error
        self._tickets = reply.ticket
        self._open[reply.ticket] = reply
        return reply.ticket

    def step(self) -> list[tuple[int, Completion]]:
        """Let vLLM advance, and give back what is finished."""
        core = self._running()
        if self._open:
            try:
                outputs = core.step()
            except Exception as error:  # whatever its executor, its workers or a kernel raise
                raise self._died(error) from error
            for output in outputs:
                self._take(output)
        done, self._done = self._done, []
        return done

    def cancel(self, ticket: int) -> None:
        """Forget a ticket. If vLLM is dead, the next step says so."""
        if self._open.pop(ticket, None) is not None:
            with suppress(EngineError):
                self._abort(ticket)
        self._done = [finished for finished in self._done if finished[0] != ticket]

    def capacity(self) -> int:
        """Rows of the longest kind that fit in the KV cache."""
        cache = self._running().llm.vllm_config.cache_config
        tokens = int(cache.kv_cache_size_tokens or (cache.num_gpu_blocks or 0) * cache.block_size)
        return max(1, min(self._width, tokens // self.model.context))

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that these messages make."""
        return self._chat.count(messages)

    def facts(self) -> dict[str, object]:
        """What computes here."""
        return {
            "backend": "vllm",
            "dtype": str(self._running().llm.model_config.dtype).removeprefix("torch."),
            "device": str(current_platform.get_device_name()),
            "width": self._width,
            "versions": versions(),
        }

    def close(self) -> None:
        """End vLLM and its processes, and free the model's memory."""
        core, self._core = self._core, None
        self._open.clear()
        self._done.clear()
        if core is not None:
            core.stop()

    def _params(self, reply: Reply) -> SamplingParams:
        """How vLLM draws a reply, and under what."""
        sampling, grammar, thought = reply.request.sampling, reply.request.grammar, reply.thought
        if thought is not None:
            source: str | None = thinking_lark(grammar, thought)
        else:
            source = grammar.lark if grammar is not None else ANYTHING if self._padded else None
        stops = [*sampling.stop, *self._chat.stops] if grammar is None and thought is None else []
        return SamplingParams(
            max_tokens=reply.longest - len(reply.prompt),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            repetition_penalty=sampling.repetition_penalty if grammar is None else 1.0,
            stop=stops,
            stop_token_ids=list(self._chat.eos),
            detokenize=bool(stops),
            output_kind=RequestOutputKind.DELTA if _watched(reply) else RequestOutputKind.FINAL_ONLY,
            structured_outputs=StructuredOutputsParams(grammar=source) if source else None,
            extra_args=self._told(reply) if source else None,
            skip_clone=True,
        )

    def _told(self, reply: Reply) -> dict[str, Any]:
        """What the request carries to the scheduler. Opening the row here finds what is wrong with it."""
        terms = Terms(reply.request.grammar, reply.request.sampling.max_tokens, reply.thought)
        try:
            row = terms.open(self._chat.vocabulary)
        except ValueError as error:
            raise Problem(f"no reply fits: {error}", "raise max_tokens") from None
        return told(terms, row, in_process=self._running().in_process)

    def _take(self, output: RequestOutput) -> None:
        """Read on in a reply; hand it out if it is complete."""
        reply = self._open.get(int(output.request_id))
        if reply is None:
            return
        made = output.outputs[0]
        reply.cached = output.num_cached_tokens or 0
        for token in made.token_ids:
            if not reply.finish:
                reply.accept(token)
        if output.finished:
            reply.end(self._finish(made.finish_reason))
        elif reply.finish:
            self._abort(reply.ticket)
        else:
            return
        self._done.append((reply.ticket, self._completion(reply)))
        del self._open[reply.ticket]

    def _completion(self, reply: Reply) -> Completion:
        completion = reply.completion()
        if reply.request.grammar is not None and completion.finish == "stop" and not completion.valid:
            raise self._lost("vLLM ended a reply that is not complete under its grammar")
        return completion if _watched(reply) else replace(completion, first_token_seconds=0.0)

    def _finish(self, reason: str | None) -> Finish:
        if reason not in FINISHES:
            raise self._lost(f"vLLM ended a reply with {reason!r}")
        return FINISHES[reason]

    def _running(self) -> Core:
        if self._core is None:
            raise EngineError(f"{self.model.alias} is not loaded any more", "the night can be resumed")
        return self._core

    def _lost(self, what: str) -> EngineError:
        """All tickets are lost; vLLM itself goes on."""
        with suppress(EngineError):
            self._abort(*self._open)
        self._open.clear()
        self._done.clear()
        return EngineError(what, "see the log; the night can be resumed")

    def _abort(self, *tickets: int) -> None:
        """Tell vLLM to leave them."""
        try:
            self._running().llm.abort_request([str(ticket) for ticket in tickets])
        except EngineError:
            raise
        except Exception as error:
            raise self._died(error) from error

    def _died(self, error: Exception) -> EngineError:
        """Nothing can be asked of this vLLM again."""
        out_of_memory = is_out_of_memory(error)
        told = first_line(error)
        with suppress(Exception):
            self.close()
        if out_of_memory:
            return OutOfMemory(f"vLLM ran out of memory: {told}", "lower max_num_seqs, gpu_memory or the context")
        return EngineError(f"vLLM failed: {told}", "see the log; the night can be resumed")


def _watched(reply: Reply) -> bool:
    """Whether each token is looked at as it comes: free text after thinking has a budget and stops of its own."""
    return reply.request.grammar is None and reply.constrained
