"""The byte-level BPE tokenizer of a GGUF file -> the text of a tokenizer.json.

The file names the rule that splits a text before BPE (`tokenizer.ggml.pre`) but does not hold it: the rules
known here are those of GPT-2 and of the models that cut digits apart first (SmolLM, StarCoder). An unknown
rule is refused, for a wrong one gives other tokens than the model was trained on, in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightschool.disk.errors import Problem

ADVICE = "use a model that is published as safetensors"
PLAIN = ("gpt-2", "gpt2", "olmo", "mpt")
DIGITS_APART = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone")
CONTROL, USER_DEFINED = 3, 4
SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}


def special_tokens(fields: Mapping[str, Any]) -> dict[str, int]:
    """Role (bos, eos, pad, unk) -> token id, for the roles that the file fills."""
    ids = {role: fields.get(f"tokenizer.ggml.{name}_token_id") for role, name in SPECIAL.items()}
    return {role: int(index) for role, index in ids.items() if index is not None}


def tokenizer_json(fields: Mapping[str, Any]) -> str:
    """The tokenizer as `tokenizers` reads it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, processors

    kind, rule = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise Problem(f"the GGUF file's tokenizer is {kind!r}, which cannot be converted", ADVICE)
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [_merge(pair) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False))
    tokenizer.pre_tokenizer = _splitter(rule, prefix_space=bool(fields.get("tokenizer.ggml.add_space_prefix")))
    tokenizer.decoder = decoders.ByteLevel()
    for token, index in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True):
        if index in (CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, special=index == CONTROL, normalized=False)])
    if fields.get("tokenizer.ggml.add_bos_token"):
        bos = special_tokens(fields)["bos"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens[bos]}:0 $A:0", special_tokens=[(tokens[bos], bos)]
        )
    return str(tokenizer.to_str(pretty=False))


def _merge(pair: str) -> tuple[str, str]:
    left, _, right = pair.partition(" ")
    return left, right


def _splitter(rule: str, prefix_space: bool) -> Any:
    from tokenizers import pre_tokenizers

    bytes_apart = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    if rule in PLAIN:
        return bytes_apart
    if rule in DIGITS_APART:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_apart])
    raise Problem(f"the GGUF file splits its text by the rule {rule!r}, which is not known here", ADVICE)
