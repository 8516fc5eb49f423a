"""Text -> words that can be compared: one form for every inflection, in any script, and code identifiers taken apart.

NFKC and casefold; then the Snowball stemmer of the script (Latin: English), without accents in Latin. Scripts that write
no spaces become pairs of neighbouring characters. `getUserName` and `get_user_name` are get, user, name, and also the whole
identifier. What the words of a page are worth is ranking.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from nightschool.sek.stopwords import STOPWORDS

_SPACELESS = (
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han and kana
    "\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Hangul, Thai, Lao, Burmese, Khmer
)
_TOKEN = re.compile(rf"[{_SPACELESS}]+|[A-Za-z]\+\+|[A-Za-z]#(?!\w)|(?:(?![{_SPACELESS}])[\w\u0300-\u036f])+")
_PAIRED = re.compile(f"[{_SPACELESS}]")
_HAN = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+|[A-Z]")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?:s\b|(?=t\b))", re.I)
_LANGUAGES = (
    ("\u0400", "\u052f", "russian"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
LONGEST = 64
"""Characters of a word; a longer run is a hash or a blob, and is cut."""


def words(text: str) -> list[str]:
    """The words of a text in order: stems, wholes and parts of identifiers, pairs of characters."""
    return [word for token in _tokens(text) for word in (_pairs(token) if _PAIRED.match(token) else _split(token))]


def terms(text: str) -> list[str]:
    """The words, and each Han character alone: two texts may share a character but no pair."""
    found: list[str] = []
    for token in _tokens(text):
        if not _PAIRED.match(token):
            found += _split(token)
            continue
        found += _pairs(token)
        if len(token) > 1:
            found += _HAN.findall(token)
    return found


def phrase(text: str) -> tuple[str, ...]:
    """The words of a text as they follow each other, without wholes: what a keyword must equal, word for word."""
    found: list[str] = []
    for token in _tokens(text):
        if _PAIRED.match(token):
            found += _pairs(token)
        else:
            parts = _split(token)
            found += parts if len(parts) == 1 else parts[1:]
    return tuple(found)


def surfaces(text: str) -> dict[str, str]:
    """Each term of a text and how the text spells it, for a person to read."""
    found: dict[str, str] = {}
    for token in _tokens(text):
        if not _PAIRED.match(token):
            for word in _split(token):
                found.setdefault(word, token)
    return found


def content(text: str) -> list[str]:
    """The words of a text without those that carry no topic (the, please, how, 如何 ...)."""
    return [word for word in words(text) if word not in STOPWORDS]


def signature(text: str) -> frozenset[str]:
    """What a text says, without order: for near-duplicates."""
    return frozenset(content(text)) or frozenset(words(text))


def similarity(a: str, b: str) -> float:
    """How near two texts are to saying the same: 0 (no word in common) to 1 (the same words)."""
    first, second = signature(a), signature(b)
    if not first or not second:
        return float(a.split() == b.split())
    return 2 * len(first & second) / (len(first) + len(second))


def topic_key(topic: str) -> str:
    """One key for all spellings of a topic; word order and inflection do not matter."""
    return " ".join(sorted(signature(topic))) or " ".join(topic.casefold().split())


def is_sign(word: str) -> bool:
    """Whether a keyword is a single character of a script without spaces, which stands in no pair."""
    return len(word) == 1 and _PAIRED.match(word) is not None


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of one casefolded word."""
    if len(word) < 3 or not word.isalpha():
        return _plain(word)
    if word.isascii():
        return str(_stemmer("english").stemWord(word))
    language = next((name for first, last, name in _LANGUAGES if first <= word[0] <= last), None)
    if language:
        return str(_stemmer(language).stemWord(word.replace("ё", "е")))
    plain = _plain(word)
    return str(_stemmer("english").stemWord(plain)) if plain.isascii() and plain.isalpha() else plain


def _tokens(text: str) -> Iterator[str]:
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return (match.group()[:LONGEST] for match in _TOKEN.finditer(_APOSTROPHE.sub("", normal)))


def _split(token: str) -> list[str]:
    """The stem of a word; of an identifier the whole, then its parts."""
    if token[-1] in "+#":
        return [token.casefold()]
    if token[-1] == "s" and token[:-1].isupper() and token.isalpha() and len(token) > 2:
        token = token[:-1].casefold()  # APIs
    if token.isalpha() and (token.islower() or token[1:].islower()):
        return [stem(token.casefold())]
    parts = _CAMEL.findall(token) if token.isascii() else token.strip("_").split("_")
    stems = [stem(part.casefold()) for part in parts if part]
    if len(stems) < 2:
        return stems
    return [stem("".join(part.casefold() for part in parts)), *stems]


def _pairs(run: str) -> list[str]:
    return [run[n : n + 2] for n in range(len(run) - 1)] or [run]


def _plain(word: str) -> str:
    """Without accents, if it is Latin: `é` and `e` are typed for each other."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word)
    return "".join(char for char in apart if not "\u0300" <= char <= "\u036f") if apart[0] < "\u0250" else word


@cache
def _stemmer(language: str) -> Any:
    """The class is taken from its own module: the package itself would load all thirty languages."""
    name = "nightschool_snowball"
    if name not in sys.modules:
        spec = importlib.util.find_spec("snowballstemmer")
        assert spec is not None and spec.submodule_search_locations is not None
        package = ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = package
    module = importlib.import_module(f"{name}.{language}_stemmer")
    return getattr(module, f"{language.capitalize()}Stemmer")()
