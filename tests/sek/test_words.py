"""Words: one form for every inflection, in any script, and identifiers taken apart."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightschool.sek.stopwords import STOPWORDS
from nightschool.sek.synonyms import neighbours
from nightschool.sek.words import phrase, signature, similarity, stem, surfaces, terms, topic_key, words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("React components", "react component"),
        ("user_name", "userName"),
        ("HTTPServer", "http server"),
        ("ＦＵＬＬ　ｗｉｄｔｈ", "full widths"),
        ("Café owners", "cafe owner"),
        ("GPUs and APIs", "gpu and api"),
        ("базы данных", "база данных"),
        ("don't", "dont"),
        ("the user's file", "the user file"),
        ("wiki/rules/tests.md", "wiki rules tests md"),
    ],
)
def test_spellings_of_one_thing_are_one_phrase(one: str, other: str) -> None:
    assert phrase(one) == phrase(other) != ()


@pytest.mark.parametrize(("one", "other"), [("ui", "build"), ("c", "c++"), ("c#", "c"), ("test", "contest")])
def test_words_end_where_they_end(one: str, other: str) -> None:
    assert not set(words(one)) & set(words(other))


def test_an_identifier_is_its_whole_and_its_parts() -> None:
    assert words("getUserName") == ["getusernam", "get", "user", "name"]
    assert words("API_KEY") == ["apikey", "api", "key"] and words("__init__") == ["init"]


def test_scripts_without_spaces_are_pairs_and_han_characters_also_stand_alone() -> None:
    assert words("執行測試 now") == ["執行", "行測", "測試", "now"]
    assert set(terms("執行")) == {"執行", "執", "行"}
    assert words("使用React組件") == ["使用", "react", "組件"]


def test_near_duplicates_are_near_and_other_rules_are_not() -> None:
    rule = "Always run the tests before a commit"
    assert similarity(rule, "always run tests before you commit!") == 1
    assert similarity(rule, "Never write SQL by hand") < 0.3
    assert similarity("", "") == 1 and similarity("...", "x") == 0


def test_a_topic_is_the_same_however_it_is_put() -> None:
    assert topic_key("React component re-renders") == topic_key("re-rendering of the React components")
    assert topic_key("!!") == "!!" and topic_key("A  B") != topic_key("C")


def test_words_without_a_topic_carry_none() -> None:
    assert signature("how do I please do the") == frozenset(words("how do I please do the"))
    assert {stem(word) for word in ["the", "please", "how", "should", "如何"]} <= STOPWORDS
    assert not {stem(word) for word in ["never", "always", "must", "not", "禁止", "必須"]} & STOPWORDS


def test_neighbours_are_mutual() -> None:
    assert stem("directory") in neighbours(stem("folder")) and stem("folder") in neighbours(stem("directory"))
    assert not neighbours("xyzzy")


def test_the_spelling_of_a_term_is_kept_for_people() -> None:
    assert surfaces("Running getUserName")["run"] == "Running"
    assert surfaces("Running getUserName")["user"] == "getUserName"


@given(st.text(max_size=300))
def test_any_text_has_words_and_they_are_stable(text: str) -> None:
    found = words(text)
    assert found == words(text) and all(found) and set(phrase(text)) <= set(found) and set(found) <= set(terms(text))
    assert 0 <= similarity(text, text[::2]) <= 1


def test_only_the_stemmer_of_the_script_is_loaded() -> None:
    code = "import sys; from nightschool.sek.words import words; words('running'); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "english_stemmer" in ran.stdout and "german_stemmer" not in ran.stdout
