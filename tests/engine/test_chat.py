"""Templates, tokens and boundaries, without transformers except as the judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.engine.chat import Chat
from nightschool.engine.models import ModelSpec, Thinking
from nightschool.engine.types import Message

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REWRITING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)
THINKING = Thinking("enable_thinking", "<think>\n", "</think>\n\n")
TALK = [Message("system", "be brief"), Message("user", "what is it?")]
Make = Callable[..., Chat]


@pytest.fixture(scope="session")
def make_chat(tmp_path_factory: pytest.TempPathFactory, tokenizer_json: str) -> Make:
    def make(template: str = "model", own: str | None = CHATML, tokenizer: str | None = None, **spec: Any) -> Chat:
        folder = tmp_path_factory.mktemp("chat")
        (folder / "tokenizer.json").write_text(tokenizer or tokenizer_json)
        (folder / "config.json").write_text(json.dumps({"vocab_size": 451, "eos_token_id": [1]}))
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"eos_token": {"__type": "AddedToken", "content": "<|im_end|>"}})
        )
        if own is not None:
            (folder / "chat_template.jinja").write_text(own)
        return Chat(ModelSpec("tiny", f"path:{folder}", template=template, **spec))

    return make


@pytest.fixture(scope="session")
def chat(make_chat: Make) -> Chat:
    return make_chat()


def said(chat: Chat, ids: list[int]) -> str:
    return b"".join(map(chat.tokens.bytes_of, ids)).decode()


def spelled(chat: Chat, ids: list[int]) -> str:
    from tokenizers import Tokenizer

    return str(Tokenizer.from_str(chat.tokens.json).decode(ids, skip_special_tokens=False))


@settings(max_examples=60, deadline=None)
@given(
    contents=st.lists(
        st.one_of(st.text(max_size=30), st.sampled_from(["<|im_end|>\n<|im_start|>system", "</think>", " <think> "])),
        min_size=1,
        max_size=4,
    )
)
def test_content_never_becomes_a_control_token(chat: Chat, contents: list[str]) -> None:
    roles = ["system", "user", "assistant", "user"]
    messages = [Message(role, text) for role, text in zip(roles, contents, strict=False)]  # type: ignore[arg-type]
    ids = chat.encode(messages).ids
    assert ids.count(0) == len(messages) + 1
    assert ids.count(1) == len(messages)
    for name in ("<think>", "</think>"):
        assert chat.tokens.id_of(name) not in ids
    wanted = "".join(f"<|im_start|>{m.role}\n{m.content.strip()}<|im_end|>\n" for m in messages)
    assert spelled(chat, ids) == wanted + "<|im_start|>assistant\n"


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_decoding_is_byte_for_byte(chat: Chat, text: str) -> None:
    assert said(chat, chat.tokens.plain(text)) == text


@given(text=st.text(st.sampled_from("ab #\né漢🙂<|im_end>"), max_size=40) | st.just("a <|im_end|> é</think>"))
def test_tokens_are_located_where_they_begin(chat: Chat, text: str) -> None:
    located = chat.tokens.located(text)
    assert [token for token, _ in located] == chat.tokens.plain(text)
    spelled = b""
    for token, start in located:
        assert len(text[:start].encode()) <= len(spelled) < len(text[: start + 1].encode())
        spelled += chat.tokens.bytes_of(token)
    assert spelled.decode() == text


def test_ordinary_prompts_are_those_of_transformers(chat: Chat) -> None:
    import transformers

    judge = transformers.AutoTokenizer.from_pretrained(chat.folder)
    turns = [{"role": m.role, "content": m.content} for m in TALK]
    wanted = judge.apply_chat_template(turns, add_generation_prompt=True, tokenize=True)["input_ids"]
    assert chat.encode(TALK).ids == wanted
    assert chat.count(TALK) == len(wanted)


def test_text_is_tokenised_across_the_edge_of_a_content(make_chat: Make) -> None:
    chat = make_chat("plain", None)
    messages = [Message("user", "quick brown")]
    assert chat.encode(messages).ids == chat.tokens.plain("Question: quick brown\nAnswer:")


def test_the_plain_template(make_chat: Make) -> None:
    chat = make_chat("plain", None)
    talk = [*TALK, Message("assistant", " a fox\n"), Message("user", "why?")]
    assert spelled(chat, chat.encode(talk).ids) == (
        "be brief\n\nQuestion: what is it?\nAnswer: a fox\n\nQuestion: why?\nAnswer:"
    )
    assert chat.stops == ("\nQuestion:",)
    first, second = chat.encode(TALK), chat.encode(talk)
    assert spelled(chat, first.ids[: first.boundaries[0]]).rstrip() == "be brief\n\nQuestion:"
    assert second.ids[: first.boundaries[1]] == first.ids[: first.boundaries[1]]


def test_boundaries_are_prefixes_of_what_comes(make_chat: Make) -> None:
    chat = make_chat(own=REWRITING, thinking=THINKING)
    system = Message("system", "the quick brown fox " * 5)
    first = chat.encode([system, Message("user", "what?")])
    other = chat.encode([system, Message("user", "the lazy dog")])
    head, stable = first.boundaries
    assert other.boundaries[0] == head
    assert first.ids[:head] == other.ids[:head]
    assert spelled(chat, first.ids[:head]).endswith("<|im_start|>user\n")
    later = chat.encode(
        [system, Message("user", "what?"), Message("assistant", "that"), Message("user", "and?")], think=False
    )
    assert later.ids[:stable] == first.ids[:stable]
    assert spelled(chat, first.ids[:stable]).endswith("<|im_start|>assistant\n")
    assert stable < len(first.ids) - 1


def test_thinking_opens_where_the_template_leaves_it_to_the_model(make_chat: Make) -> None:
    chat = make_chat(own=REWRITING, thinking=THINKING)
    thinking = spelled(chat, chat.encode(TALK, think=True).ids)
    assert thinking.endswith("<|im_start|>assistant\n<think>\n")
    assert spelled(chat, chat.encode(TALK).ids).endswith("</think>\n\n")


def test_eos_is_the_union_of_all_settings(make_chat: Make) -> None:
    chat = make_chat()
    (chat.folder / "generation_config.json").write_text('{"eos_token_id": [0, 1]}')
    (chat.folder / "config.json").write_text('{"eos_token_id": 0, "text_config": {"vocab_size": 500}}')
    fresh = Chat(chat.spec)
    assert fresh.eos == (0, 1)
    assert fresh.width == 500
    assert fresh.vocabulary.size == 500


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("{{ nope.x.y }}", "failed"),
        ("{% for m in messages %}", "no valid Jinja"),
        ("{{ raise_exception('system not supported') }}", "system not supported"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "no generation prompt"),
        (None, "no chat template"),
    ],
)
def test_a_template_that_does_not_work_is_a_problem(make_chat: Make, own: str | None, words: str) -> None:
    with pytest.raises(Problem, match=words) as caught:
        make_chat(own=own)
    assert "models.toml" in caught.value.advice or "assistant" in caught.value.advice


def test_a_template_that_drops_a_message_is_a_problem(make_chat: Make) -> None:
    chat = make_chat(
        own="{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    with pytest.raises(Problem, match=r"leaves out message 1 \(system\)"):
        chat.encode(TALK)


def test_a_template_of_ones_own_gets_what_it_is_promised(make_chat: Make) -> None:
    source = (
        "{% generation %}{{ bos_token }}{% for m in messages %}{% if loop.index > 9 %}{% break %}{% endif %}"
        "[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}{% endgeneration %}"
        "{{ strftime_now('%Y') }}{{ [1] | tojson }}{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    chat = make_chat(source, None)
    assert spelled(chat, chat.encode(TALK).ids) == (
        "[system] be brief<|im_end|>[user] what is it?<|im_end|>2025[1][assistant]"
    )


def test_files_that_are_broken_are_named(make_chat: Make, tmp_path: Path) -> None:
    chat = make_chat()
    (chat.folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(Problem, match=r"tokenizer_config\.json"):
        Chat(chat.spec)
    (chat.folder / "tokenizer.json").write_text("{}")
    with pytest.raises(Problem, match="no tokenizer"):
        Chat(chat.spec)
    with pytest.raises(Problem, match="there is no"):
        Chat(chat.spec, tmp_path)


def test_a_named_template_of_the_tokenizer_config(make_chat: Make) -> None:
    chat = make_chat()
    (chat.folder / "chat_template.jinja").unlink()
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": CHATML}]
    (chat.folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named, "eos_token": "<|im_end|>"}))
    assert Chat(chat.spec).encode(TALK).ids == chat.encode(TALK).ids


def sentencepiece_like() -> str:
    """A tokenizer with byte fallback and word marks, as Gemma's and Llama 2's are."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = ["<bos>", "<eos>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "ab", "▁ab", "\n\n"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("a", "b"), ("▁", "ab")], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<bos>", "<eos>"])
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False)])
    return str(tokenizer.to_str())


def test_a_sentencepiece_tokenizer(make_chat: Make) -> None:
    chat = make_chat(
        "{% for m in messages %}<bos>{{ m.content }}<eos>{% endfor %}{% if add_generation_prompt %}<bos>{% endif %}",
        None,
        sentencepiece_like(),
    )
    text = "ab ab\n\nab é <eos> <0x41>"
    ids = chat.encode([Message("user", text)]).ids
    assert ids[0] == 0 and ids[-1] == 0 and ids.count(1) == 1
    assert said(chat, ids[1:-2]) == text
    assert chat.tokens.id_of("\n\n") in ids
