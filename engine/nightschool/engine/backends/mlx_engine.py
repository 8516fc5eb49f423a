"""The engine of the MLX backend, on mlx-lm's BatchGenerator: rows join between two steps and leave as they finish.

`intake.py` keeps the tickets, `mlx_prefix.py` the prompts, `mlx_sampler.py` masks and draws; this module brings them
together and checks, at every step, that mlx-lm did with the rows what is relied on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from nightschool.disk.errors import Problem
from nightschool.engine.backends import mlx_model
from nightschool.engine.backends.mlx_model import MLXModel
from nightschool.engine.backends.mlx_prefix import CHUNK, Prefixes
from nightschool.engine.backends.mlx_rows import RowTags, TaggedModel
from nightschool.engine.backends.mlx_sampler import SharedSampler
from nightschool.engine.backends.mlx_store import PrefixStore
from nightschool.engine.chat import Chat
from nightschool.engine.folders import cache_home
from nightschool.engine.intake import Intake, Memory, is_out_of_memory
from nightschool.engine.models import ModelSpec
from nightschool.engine.reply import Reply
from nightschool.engine.types import Completion, EngineError, Message, Request
from nightschool.kernels.choose import choose

log = logging.getLogger(__name__)

SNAPSHOT_SHARE = 0.15
"""Of the free memory, for snapshots of prompts."""
READ_TOGETHER = 8
"""Prompts that are read in one pass."""


def open_model(spec: ModelSpec, width: int | None = None, say: Callable[[str], None] | None = None) -> MLXEngine:
    """Load a model from its folder."""
    return MLXEngine(Chat(spec), MLXModel(spec), width, say)


class MLXEngine:
    """One loaded model; see `engine.Engine`."""

    batch_invariant = False

    def __init__(
        self, chat: Chat, model: MLXModel, width: int | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        """`width` bounds the rows of a batch; `say` is told when memory runs out."""
        if model.width != chat.vocabulary.size:
            raise Problem(
                f"{chat.spec.alias} gives {model.width} logits, but its config tells of {chat.vocabulary.size}",
                "mend vocab_size in its config.json",
            )
        self.model = chat.spec
        self._chat, self._mlx = chat, model
        free = mlx_model.room()
        snapshots = int(free * SNAPSHOT_SHARE)
        memory = Memory(free - snapshots, model.cost.token, model.cost.row, padded=True)
        self._intake = Intake(chat, memory, 1 if model.kind == "single" else width, say or log.warning)
        disk = PrefixStore(cache_home() / "prefixes", chat, model.dtype)
        self._prefixes = Prefixes(model, snapshots, disk)
        self._tagged = TaggedModel(model.net, chat.vocabulary.real)
        draw, reason = choose(f"mlx-{mlx_model.device()}")
        self._sampler = SharedSampler(
            self._tagged, self._intake.grammars, self._intake.running, draw, chat.vocabulary.real
        )
        self._rows: dict[int, int] = {}
        """The generator's id of each running ticket."""
        self._cuts: dict[int, Reply] = {}
        """The rows whose caches are worth a snapshot at the end of their first segment."""
        self._generator: Any = None
        log.info("%s: %s on MLX, %s; %s", self.model.alias, model.dtype, mlx_model.PATHS[model.kind], reason)

    def submit(self, request: Request) -> int:
        """Queue a request."""
        return self._intake.submit(request)

    def step(self) -> list[tuple[int, Completion]]:
        """Take in what fits, advance every row by a token, and give back what is finished."""
        try:
            self._step()
        except (RuntimeError, MemoryError, ValueError) as error:
            self._recover(error)
        except BaseException:
            self._abandon()
            raise
        return self._intake.take()

    def cancel(self, ticket: int) -> None:
        """Forget a ticket, queued or running."""
        if self._intake.cancel(ticket):
            self._remove([ticket])

    def capacity(self) -> int:
        """Rows of the longest kind that fit in memory."""
        return self._intake.capacity()

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that these messages make."""
        return self._chat.count(messages)

    def facts(self) -> dict[str, object]:
        """What computes here."""
        return {
            "backend": "mlx",
            "dtype": self._mlx.dtype,
            "device": mlx_model.device(),
            "width": self._intake.width,
            "versions": {name: version(name) for name in ("mlx", "mlx-lm")},
        }

    def close(self) -> None:
        """Free the model's memory."""
        self._abandon()
        self._prefixes.trie.shrink(0)
        self._tagged.release()
        self._mlx.release()

    def _step(self) -> None:
        for reply in self._intake.admit():
            self._insert(reply)
        if not self._rows:
            return
        calls = self._sampler.calls
        read, spoken = self._generator.next()
        self._check(calls, spoken)
        for progress in read:
            if progress.end_of_segment and progress.uid in self._cuts:
                self._keep(progress.uid)
        over = [reply for reply in self._intake.running.values() if reply.finish]
        for reply in over:
            self._intake.finish(reply)
        self._remove([reply.ticket for reply in over])

    def _insert(self, reply: Reply) -> None:
        """Hand a row to the generator, from the longest known beginning of its prompt."""
        generator = self._generator = self._generator or self._open()
        with mx.stream(generator.stream):
            start = self._prefixes.begin(reply)
            (row,) = generator.insert_segments(
                [start.segments],
                max_tokens=[reply.longest + 2],
                caches=[[*start.caches, RowTags([reply.ticket])]],
                all_tokens=[list(reply.prompt[: start.length])],
            )
        self._rows[reply.ticket] = row
        if len(start.segments) > 1:
            self._cuts[row] = reply

    def _open(self) -> Any:
        """A generator as wide as the batch may be; it never ends a row by itself."""
        if self._mlx.kind == "single":
            from nightschool.engine.backends.mlx_single import SingleGenerator

            return SingleGenerator(self._tagged, self._sampler)
        from mlx_lm.generate import BatchGenerator

        return BatchGenerator(
            self._tagged,
            sampler=self._sampler,
            completion_batch_size=self._intake.width,
            prefill_batch_size=min(READ_TOGETHER, self._intake.width),
            prefill_step_size=CHUNK,
        )

    def _check(self, calls: int, spoken: Sequence[Any]) -> None:
        """Whatever is relied on, at every step: rows are sampled all at once, each gets the token drawn for it."""
        known = {row: ticket for ticket, row in self._rows.items()}
        if spoken and self._sampler.calls == calls:
            raise _changed("does not call the shared sampler")
        for response in spoken:
            reply = self._intake.running.get(known.get(response.uid, -1))
            if reply is None or not reply.ids or reply.ids[-1] != response.token:
                raise _changed("gave a row the token of another")

    def _keep(self, row: int) -> None:
        """Store the caches of a row that stands at the end of a segment."""
        with mx.stream(self._generator.stream):
            caches, tokens = self._generator.extract_cache([row])[row]
            *own, _ = caches
            mlx_model.detach(own)
        self._prefixes.keep(self._cuts.pop(row), tokens, own)

    def _remove(self, tickets: Sequence[int]) -> None:
        rows = [self._rows.pop(ticket) for ticket in tickets if ticket in self._rows]
        for row in rows:
            self._cuts.pop(row, None)
        for ticket in tickets:
            self._sampler.forget(ticket)
            self._prefixes.release(ticket)
        if rows:
            with mx.stream(self._generator.stream):
                self._generator.remove(rows)

    def _abandon(self) -> None:
        """Lose all open tickets."""
        self._clear()
        self._intake.abandon()

    def _clear(self) -> None:
        """Take all rows out, whatever state a failed step left them in."""
        for ticket in self._intake.running:
            self._sampler.forget(ticket)
            self._prefixes.release(ticket)
        self._rows.clear()
        self._cuts.clear()
        self._tagged.forget()
        if self._generator is not None:
            self._generator.close()
            self._generator = None
        mx.clear_cache()

    def _recover(self, error: BaseException) -> None:
        """Out of memory: let the running rows begin again, in a batch half as wide."""
        self._clear()
        if not is_out_of_memory(error):
            self._intake.abandon()
            raise EngineError(f"the model failed: {error}", "see the log; the night can be resumed") from error
        self._prefixes.trie.shrink(self._prefixes.trie.budget // 2)
        self._intake.halve()


def _changed(what: str) -> EngineError:
    return EngineError(f"mlx-lm {version('mlx-lm')} {what}", "install the version that was tested: nightschool doctor")
