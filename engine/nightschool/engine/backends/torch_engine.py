"""The engine of the transformers backend.

Requests join a running batch between two steps and leave as they finish. `torch_batch.py` computes, `constraint.py`
masks, the kernel chooses, `intake.py` and `reply.py` keep the books; this module brings them together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version

import torch

from nightschool.disk.errors import Problem, nearest
from nightschool.engine import probe
from nightschool.engine.backends.torch_batch import Row, Snapshot, TorchBatch
from nightschool.engine.backends.torch_model import TorchModel
from nightschool.engine.chat import Chat
from nightschool.engine.intake import Intake, Memory, is_out_of_memory
from nightschool.engine.models import ModelSpec
from nightschool.engine.prefix import PrefixTrie
from nightschool.engine.types import Completion, EngineError, Message, Request
from nightschool.kernels.choose import choose
from nightschool.kernels.reference import NOTHING, Rows

log = logging.getLogger(__name__)

SNAPSHOT_SHARE = 0.15
"""Of the free memory, for snapshots of prompts."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def open_model(spec: ModelSpec, width: int | None = None, say: Callable[[str], None] | None = None) -> TorchEngine:
    """Load a model from its folder."""
    device = pick_device()
    chat = Chat(spec)
    return TorchEngine(chat, TorchModel(spec.alias, spec.folder, pick_dtype(spec, device), device), width, say)


class TorchEngine:
    """One loaded model; see `engine.Engine`."""

    batch_invariant = False

    def __init__(
        self,
        chat: Chat,
        model: TorchModel,
        width: int | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """`width` bounds the rows of a batch; `say` is told when memory runs out."""
        self.model = chat.spec
        self._chat = chat
        self._torch = model
        free = _free_memory(model.device)
        snapshots = int(free * SNAPSHOT_SHARE)
        self._batch = TorchBatch(model, PrefixTrie[Snapshot](snapshots))
        self._intake = Intake(chat, Memory(free - snapshots, model.token_bytes), width, say or log.warning)
        self._grammars = self._intake.grammars
        self._sampler, reason = choose(model.device.type)
        log.info("%s: %s on %s; %s", self.model.alias, model.dtype, model.device, reason)

    def submit(self, request: Request) -> int:
        """Queue a request."""
        return self._intake.submit(request)

    def step(self) -> list[tuple[int, Completion]]:
        """Take in what fits, advance every row by a token, and give back what is finished."""
        try:
            with torch.inference_mode():
                self._step()
        except (RuntimeError, MemoryError) as error:
            with torch.inference_mode():
                self._recover(error)
        except BaseException:
            self._abandon()
            raise
        return self._intake.take()

    def cancel(self, ticket: int) -> None:
        """Forget a ticket, queued or running."""
        if not self._intake.cancel(ticket):
            return
        for row in self._batch.rows:
            if row.reply.ticket == ticket:
                with torch.inference_mode():
                    self._batch.remove(row)

    def capacity(self) -> int:
        """Rows of the longest kind that fit in memory."""
        return self._intake.capacity()

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that these messages make."""
        return self._chat.count(messages)

    def facts(self) -> dict[str, object]:
        """What computes here."""
        return {
            "backend": "transformers",
            "dtype": str(self._torch.dtype).removeprefix("torch."),
            "device": str(self._torch.device),
            "width": self._intake.width,
            "versions": {name: version(name) for name in ("torch", "transformers")},
        }

    def close(self) -> None:
        """Free the model's memory."""
        self._abandon()
        self._batch.prefixes.shrink(0)
        self._torch.release()

    def _abandon(self) -> None:
        """Lose all open tickets."""
        self._intake.abandon()
        with torch.inference_mode():
            self._batch.clear()

    def _step(self) -> None:
        if fresh := self._intake.admit():
            self._choose(*self._batch.add(fresh))
        if self._batch.rows:
            ready, logits = self._batch.step()
            if ready:
                self._choose(ready, logits)

    def _choose(self, rows: Sequence[Row], logits: torch.Tensor) -> None:
        """Draw the next token of each row; the rows that finish with it leave."""
        tickets = [row.reply.ticket for row in rows]
        constrained = any(row.reply.constrained for row in rows)
        mask = self._grammars.fill(tickets) if constrained else None
        drawn = Rows.of([row.reply.drawing for row in rows])
        sampled = self._sampler(_penalise(rows, logits), mask, drawn, self._chat.vocabulary.real)
        if NOTHING in sampled.ids:
            raise EngineError("the model gave no token that may come next", "report the model and the request")
        ids = sampled.ids.tolist()
        self._grammars.consume(tickets, ids)
        for row, token, logprob in zip(rows, ids, sampled.logprobs.tolist(), strict=True):
            row.reply.accept(token, logprob)
            row.pending = [token]
            self._force(row)
            if row.reply.request.grammar is not None and self._grammars.finished(row.reply.ticket):
                row.reply.end("stop")
        for row in list(rows):
            if row.reply.finish:
                self._intake.finish(row.reply)
                self._batch.remove(row)

    def _force(self, row: Row) -> None:
        """Give a row the tokens that its grammar leaves no choice about."""
        if row.reply.finish or row.reply.request.grammar is None:
            return
        for token in self._grammars.forced(row.reply.ticket):
            row.reply.accept(token, forced=True)
            row.pending.append(token)

    def _recover(self, error: BaseException) -> None:
        """Out of memory: let the running rows begin again, in a batch half as wide."""
        if not isinstance(error, torch.OutOfMemoryError) and not is_out_of_memory(error):
            self._abandon()
            raise EngineError(f"the model failed: {error}", "see the log; the night can be resumed") from error
        self._batch.clear()
        self._batch.prefixes.shrink(self._batch.prefixes.budget // 2)
        self._intake.halve()


def pick_device() -> torch.device:
    """The accelerator that torch can use, or the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def pick_dtype(spec: ModelSpec, device: torch.device) -> torch.dtype:
    """`auto`: float32 on a CPU, where narrower types are slower unless measured otherwise; bfloat16 elsewhere."""
    if spec.dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if spec.dtype not in DTYPES:
        raise Problem(f"{spec.alias} has the unknown dtype {spec.dtype!r}", nearest(spec.dtype, DTYPES))
    return DTYPES[spec.dtype]


def _penalise(rows: Sequence[Row], logits: torch.Tensor) -> torch.Tensor:
    """Repetition penalty, for the free texts that ask for one."""
    for i, row in enumerate(rows):
        penalty = row.reply.request.sampling.repetition_penalty
        if penalty == 1 or row.reply.request.grammar is not None or row.reply.thought is not None:
            continue
        seen = torch.tensor(sorted({*row.reply.prompt, *row.reply.ids}), device=logits.device)
        values = logits[i, seen]
        logits[i, seen] = torch.where(values > 0, values / penalty, values * penalty)
    return logits


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(probe.memory()[1] or 4_000_000_000)
