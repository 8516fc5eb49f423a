"""Vocabularies without a model, and terms at random."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from nightschool.engine import terms
from nightschool.engine.nodes import Alt, Chars, Leaf, Lit, Node, Repeat, Seq, Words
from nightschool.engine.picks import Picks
from nightschool.engine.terms import Term
from nightschool.engine.vocabulary import Vocabulary

SENTENCES = [
    "the quick brown fox jumps over the lazy dog and checks the staging cluster first " * 3,
    '{"log":"checked","evidence":["t1","t2"],"edits":[{"page":"patterns/a.md","content":["- one"]}]}' * 3,
    'say "ship it", then C:\\temp; café 😀 --- # heading',
]


@pytest.fixture(scope="session")
def byte_vocabulary() -> Vocabulary:
    return Vocabulary.of_bytes()


@pytest.fixture(scope="session")
def tokenizer_json() -> str:
    """A byte-level BPE of some 350 tokens; `<|im_end|>` is id 1, `</think>` is an added token but not a special one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_tokens(["<think>", "</think>"])
    return str(tokenizer.to_str())


@pytest.fixture(scope="session")
def vocabulary(tokenizer_json: str) -> Vocabulary:
    """Padded, to a width that no word of 32 bits divides."""
    return Vocabulary(tokenizer_json, 451, [1])


@pytest.fixture(scope="session")
def random_terms() -> st.SearchStrategy[Term]:
    words = st.one_of(st.text(max_size=8), st.sampled_from(["<|im_end|>", '"\\', "---", "</think>", "aa", "ab", "😀"]))
    leaves = st.one_of(
        st.builds(terms.text, st.integers(0, 6)),
        st.builds(terms.text, st.integers(3, 6), st.integers(1, 3)),
        st.lists(words, min_size=1, max_size=4).map(terms.choice),
        st.builds(lambda low, more: terms.integer(low, low + more), st.integers(-120, 120), st.integers(0, 300)),
        st.builds(lambda low, more: terms.number(low, low + more, 2), st.integers(-12, 12), st.integers(0, 30)),
        st.sampled_from([terms.boolean(), terms.null(), terms.const({"a": [1, None]})]),
        st.sampled_from([r"[a-z]{1,3}(-[a-z]{1,3}){0,2}", r"(a|bc)*", r'["\\x]{0,4}', r"\S{2,3}"]).map(
            lambda pattern: terms.matching(pattern, 12)
        ),
        st.builds(
            terms.distinct, st.lists(words, min_size=3, max_size=6, unique=True), st.integers(0, 3), st.integers(3, 5)
        ),
    )

    def grow(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        some = st.lists(inner, min_size=1, max_size=3)
        objects = st.builds(
            terms.obj, st.dictionaries(st.sampled_from("abcd"), inner, min_size=1), st.sets(st.sampled_from("abcd"))
        )
        arrays = st.builds(terms.array, inner, st.integers(0, 2), st.integers(2, 3))
        return st.one_of(
            objects,
            arrays,
            some.map(terms.alt),
            some.map(terms.fixed),
            st.builds(
                lambda options, low: terms.distinct_objects(options, min(low, len(options)), 3), some, st.integers(0, 2)
            ),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@pytest.fixture(scope="session")
def longest() -> Callable[[Node], bytes]:
    return _longest


def _longest(node: Any) -> bytes:
    """A longest member of a language."""
    match node:
        case Lit():
            return bytes(node.data)
        case Chars():
            return chr(node.ranges[-1][1]).encode()
        case Seq():
            return _longest(node.head) + _longest(node.tail)
        case Alt():
            return _longest(max(node.options, key=lambda option: option.longest))
        case Repeat():
            return _longest(node.part) * (node.high or 0)
        case Words():
            return max(node.words, key=len)
        case Leaf():
            return _longest(node.inner)
        case Picks():
            options = sorted(node.options, key=lambda option: -option.longest)[: node.high]
            return b",".join(map(_longest, options)) + b"]"
        case _:
            raise TypeError(f"the bound of {type(node).__name__} need not be reached")
