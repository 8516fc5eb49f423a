"""A folder of weights: the models.toml entry that would suit it, and whether it suits the entry that it has.

Reads config.json, the tokenizer and the chat template; loading the weights is left to the backends, and looking at a
server to its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from nightschool.disk.errors import Problem
from nightschool.engine.fetch import Progress, quiet, verify
from nightschool.engine.models import ModelSpec
from nightschool.engine.template import own_template, read_json
from nightschool.engine.types import Message

THINK = ("<think>", "</think>")
SWITCH = "enable_thinking"
CONTEXT = 32768
"""A wider context costs memory for every row of a batch: a new entry starts with at most this much."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `said` is what was found, or what is wrong."""

    name: str
    ok: bool
    said: str


def entry_for(folder: Path, alias: str) -> str:
    """The text of a [models.ALIAS] table for a folder of weights."""
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        advice = "give a folder with config.json, tokenizer.json and *.safetensors"
        raise Problem(f"{folder} is no model folder", advice)
    config = read_json(folder / "config.json")
    inner = config.get("text_config") or config
    own = own_template(folder)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    lines = [
        f"[models.{alias}]",
        f"source = {json.dumps(f'path:{folder.resolve()}', ensure_ascii=False)}",
        f"context = {min(int(inner.get('max_position_embeddings') or 8192), CONTEXT)}",
        f'template = "{"model" if own else "plain"}"',
        f"weights_gb = {max(size / 1e9, 0.01):.2f}",
    ]
    if own and SWITCH in own and all(mark in own for mark in THINK):
        lines.append(f'thinking = {{ kwarg = "{SWITCH}", open = "{THINK[0]}", close = "{THINK[1]}" }}')
    return "\n".join(lines) + "\n"


def alias_of(folder: Path) -> str:
    """An alias made of the folder's name."""
    return re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "model"


def check(spec: ModelSpec, progress: Progress = quiet) -> list[Finding]:
    """Look at everything that can be wrong before weights are loaded."""
    if spec.kind == "http":
        from nightschool.engine.backends import openai_check

        return openai_check.check(spec)
    if spec.kind == "scripted":
        return [Finding("files", True, "none: not a model of this machine's disk")]
    if not spec.ready:
        raise Problem(f"{spec.alias} is not on this machine yet", f"nightschool models pull {spec.alias}")
    damaged = verify(spec, progress)
    files = Finding("files", not damaged, f"damaged: {', '.join(damaged)}" if damaged else str(spec.folder))
    try:
        return [files, _context(spec), *_chat(spec)]
    except Problem as problem:
        return [files, Finding("template", False, f"{problem.what}; {problem.advice}")]


def _context(spec: ModelSpec) -> Finding:
    config = read_json(spec.folder / "config.json")
    limit = (config.get("text_config") or config).get("max_position_embeddings")
    fits = limit is None or spec.context <= limit
    said = f"{spec.context} tokens" + ("" if fits else f", but the model was made for {limit}")
    return Finding("context", fits, said)


def _chat(spec: ModelSpec) -> list[Finding]:
    """The tokenizer, the template, and the marks of thinking."""
    from nightschool.engine.chat import Chat

    chat = Chat(spec)
    asked = [Message("system", "Be brief."), Message("user", "What is 17 + 4?")]
    plain = chat.encode(asked).ids
    findings = [
        Finding("tokenizer", True, f"{chat.tokens.size} tokens, ends a reply with {list(chat.eos)}"),
        Finding("template", True, f"{len(plain)} tokens for a question of two messages"),
    ]
    if spec.thinking is None:
        return findings
    for name, mark in (("open", spec.thinking.open), ("close", spec.thinking.close)):
        known = chat.tokens.id_of(mark)
        said = f"{mark} is token {known}" if known is not None else f"{mark!r} is not one token of this model"
        findings.append(Finding(f"thinking.{name}", known is not None, said))
    works = chat.switches(asked)
    said = f"{spec.thinking.kwarg} changes the prompt" if works else f"the template ignores {spec.thinking.kwarg!r}"
    return [*findings, Finding("thinking.kwarg", works, said)]
