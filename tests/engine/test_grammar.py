"""What grammars accept, and that their sizes are true."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import Problem
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.nodes import NOTHING, Node
from nightschool.engine.terms import (
    Term,
    alt,
    array,
    boolean,
    choice,
    const,
    distinct,
    distinct_objects,
    fixed,
    integer,
    lines,
    lit,
    matching,
    null,
    number,
    obj,
    plain,
    regex,
    text,
)
from nightschool.engine.vocabulary import read

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPAN = {line: obj({"target": const(line), "content": text(3)}) for line in ("- a", "- b")}

SHAPES: list[tuple[Term, list[str], list[str]]] = [
    (lit("yes"), ["yes"], ["", "ye", "yes "]),
    (const({"a": ["é", 1]}), ['{"a":["é",1]}'], ['{"a": ["é",1]}']),
    (choice(["a", "ab", 3]), ['"a"', '"ab"', "3"], ["a", '"b"', '"']),
    (plain(["a", "ab"]), ["a", "ab"], ["", "abb"]),
    (text(3), ['""', '"abc"', '"é😀\u3042"', '"\\"\\\\x"'], ['"abcd"', '"a', '"\\n"', '"\\u0041"', '"\\/"', "'a'"]),
    (text(3, 2), ['"ab"', '"\\\\\\""'], ['"a"', '"abcd"']),
    (lines(1, 2, 5), ['["a"]', '["a","b"]'], ["[]", '["a", "b"]', '[""]', '["a","b","c"]']),
    (matching("[a-z]+(-[a-z]+)*", 6), ['"a"', '"ab-cde"'], ['"ab-cdef"', '"-a"', '""']),
    (matching(r'\\?"{1,2}'), ['"\\""', '"\\\\\\"\\""'], ['"""', '"\\"\\"\\""']),
    (regex("a{2}|[^a]"), ["aa", "é", "\n"], ["a", "aaa"]),
    (integer(-5, 12), ["-5", "0", "9", "12"], ["-0", "-6", "13", "01", "1.0", ""]),
    (number(0, 2, 2), ["0", "0.5", "1.25", "2"], ["2.1", "1.", "-1", "1.255", "1e0"]),
    (alt([boolean(), null()]), ["true", "false", "null"], ["True", ""]),
    (obj({"a": null(), "b": null()}, ["a"]), ['{"a":null,"b":null}', '{"b":null}'], ['{"a":null}', "{}"]),
    (obj({"a": null(), "b": null()}, ["a", "b"]), ["{}", '{"b":null}', '{"a":null}'], ['{,"b":null}']),
    (array(null(), 0, 2), ["[]", "[null]", "[null,null]"], ["[null,null,null]", "[,]", "[null,]"]),
    (array(null(), 0, 0), ["[]"], ["[null]"]),
    (fixed([null(), boolean()]), ["[null,true]"], ["[null]", "[null,true,true]"]),
    (distinct(["a", "b", '"\\'], 1, 2), ['["b"]', '["\\"\\\\","a"]'], ["[]", '["a","a"]', '["a","b","\\"\\\\"]']),
    (distinct(["a"], 0, 5), ["[]", '["a"]'], ['["a","a"]', "["]),
    (distinct_objects(list(SPAN.values()), 1, 2), ['[{"target":"- b","content":"x"},{"target":"- a","content":""}]'],
     ['[{"target":"- a","content":"x"},{"target":"- a","content":"y"}]', "[]"]),
    (obj({"x": distinct("ab", 1, 2), "y": distinct("ab", 2, 2)}), ['{"x":["a"],"y":["b","a"]}'], ['{"x":["a"]}']),
    (choice(["\x7f", "\x85\u2028", "\n"]), ['"\x7f"', '"\x85\u2028"', '"\\n"'], ['"\n"']),
    (alt([array(text(0), 1, 2), array(text(1), 1, 2)]), ['["",""]', '["x"]'], ['["xx"]']),
    (alt([const({"a": 1}), obj({"a": integer(0, 99)}), const([1, {"a": 1}])]), ['{"a":1}', '{"a":12}'], ['{"a":123}']),
    (alt([obj({"a": null()}), obj({"a": alt([null(), text(1)]), "b": text(2)})]), ['{"a":null,"b":""}'], ["{}"]),
]  # fmt: skip


@pytest.mark.parametrize(("term", "good", "bad"), SHAPES)
def test_what_a_term_accepts(term: Term, good: list[str], bad: list[str]) -> None:
    grammar = Grammar.build(term)
    for reply, expected in [*((reply, True) for reply in good), *((reply, False) for reply in bad)]:
        assert accepts(grammar, reply) is expected, reply
        assert (read(term.node, reply.encode()).shortest == 0) is expected, reply
        assert not expected or grammar.shortest <= len(reply.encode()) < grammar.limit


@pytest.mark.parametrize("char", ["\n", "\t", "\x00", "\x7f", "\x85", "\x9f", "\u2028", "\u2029"])
def test_text_holds_no_control_characters(char: str) -> None:
    for term in (text(9), matching("(?s).{0,9}"), matching(r"[^a]{0,9}")):
        assert not accepts(Grammar.build(term), f'"a{char}b"')


@QUICK
@given(data=st.data())
def test_sizes_are_exact(
    data: st.DataObject, random_terms: st.SearchStrategy[Term], longest: Callable[[Node], bytes]
) -> None:
    term = data.draw(random_terms)
    if term.impossible:
        with pytest.raises(ValueError, match="nothing satisfies"):
            Grammar.build(term)
        return
    grammar = Grammar.build(term)
    shortest = term.node.closing()
    assert len(shortest) == grammar.shortest
    assert accepts(grammar, shortest.decode())
    try:
        whole = longest(term.node)
    except TypeError:
        return
    assert len(whole) == grammar.limit - 1
    assert accepts(grammar, whole.decode())


@QUICK
@given(data=st.data())
def test_the_matcher_and_the_language_agree(data: st.DataObject, random_terms: st.SearchStrategy[Term]) -> None:
    term = data.draw(random_terms.filter(lambda term: not term.impossible))
    reply = _walk(term.node, data)
    assert accepts(Grammar.build(term), reply.decode())
    at = data.draw(st.integers(0, len(reply)))
    changed = reply[:at] + data.draw(st.sampled_from([b"", b",", b'"', b"]", b"a", b"0"])) + reply[at + 1 :]
    spelled = changed.decode("utf-8", "surrogateescape")
    if spelled.isprintable():
        assert accepts(Grammar.build(term), spelled) is (read(term.node, changed).shortest == 0)


@QUICK
@given(
    data=st.data(),
    pattern=st.sampled_from(
        [r"\d{1,3}(\.\d{2})?", r"\W\w{2}", r"(?s).[^\S ]", r"[^\d\-é]{0,2}x|", r"[^\W\D]", "(ab|a){0,3}b"]
    ),
)
def test_patterns_mean_what_python_means(data: st.DataObject, pattern: str) -> None:
    reply = _walk(regex(pattern).node, data).decode()
    assert re.fullmatch(pattern, reply)
    assert accepts(Grammar.regex(pattern), reply)


@QUICK
@given(low=st.integers(-1200, 1200), more=st.integers(0, 2500), value=st.integers(-4000, 4000))
def test_integers_keep_their_bounds(low: int, more: int, value: int) -> None:
    node = integer(low, low + more).node
    assert (read(node, str(value).encode()).shortest == 0) is (low <= value <= low + more)


def test_many_long_hostile_strings() -> None:
    options = [f'{i} "\\ 😀 --- <|im_end|> \n' + "é{]\\" * 70 for i in range(2000)]
    grammar = Grammar.build(obj({"target": choice(options)}))
    for option in (options[0], options[1234], options[-1]):
        assert accepts(grammar, json.dumps({"target": option}, ensure_ascii=False, separators=(",", ":")))
    assert not accepts(grammar, '{"target":"0 "}')


def test_what_is_impossible_is_left_out() -> None:
    read_file = obj({"path": choice([])})
    finish = obj({"finish": boolean()})
    assert read_file.impossible and array(choice([]), 1, 2).impossible and distinct(["a"], 2, 3).impossible
    assert Grammar.build(alt([read_file, finish])) == Grammar.build(finish)
    assert accepts(Grammar.build(array(choice([]), 0, 2)), "[]")
    assert Grammar.build(obj({"path": choice([]), "x": null()}, ["path"])).portable == obj({"x": null()}).schema
    assert accepts(Grammar.build(distinct_objects([read_file, finish], 0, 5)), '[{"finish":true}]')
    with pytest.raises(ValueError, match="nothing satisfies"):
        Grammar.build(read_file)


def test_at_most_63_things_are_told_apart() -> None:
    ids = [f"t{i}" for i in range(63)]
    grammar = Grammar.build(distinct(ids, 1, 63))
    assert accepts(grammar, json.dumps(ids[::-1], separators=(",", ":")))
    with pytest.raises(ValueError, match="at most 63"):
        distinct([*ids, "t63"], 1, 3)


def test_optional_keys_do_not_multiply() -> None:
    keys = [f"k{i}" for i in range(40)]
    grammar = Grammar.build(obj(dict.fromkeys(keys, boolean()), keys))
    assert len(grammar.lark) < 30_000
    assert accepts(grammar, "{}") and accepts(grammar, '{"k3":true,"k39":false}')


def test_a_grammar_is_a_value() -> None:
    assert len({Grammar.build(text(3)), Grammar.build(text(3)), Grammar.build(text(4))}) == 2
    assert Grammar.choice(["a", "b"]) == Grammar.build(plain(["b", "a"]))


@pytest.mark.parametrize("expression", ["a*", "a+", "(ab){2,}", "[^x]*", "a|b*", "(?:a+){3}"])
def test_open_expressions_have_no_grammar(expression: str) -> None:
    with pytest.raises(Problem, match="open repetition"):
        Grammar.regex(expression)


@pytest.mark.parametrize("expression", ["(?=a)b", r"(a)\1", "(?i)a", r"\ba", "a^b", "(?>a)", "("])
def test_expressions_that_no_grammar_holds(expression: str) -> None:
    with pytest.raises(Problem, match=re.escape(repr(expression))):
        Grammar.regex(expression)


def test_a_cap_bounds_an_open_expression() -> None:
    grammar = Grammar.regex("[a-z]+(-[a-z]+)*", 8)
    assert (grammar.limit, grammar.shortest) == (9, 1)
    assert accepts(grammar, "abc-defg") and not accepts(grammar, "abc-defgh")
    with pytest.raises(Problem, match="longer than 8 characters"):
        Grammar.regex(".+", 8)


def test_lark_by_hand_needs_a_limit_and_must_compile() -> None:
    grammar = Grammar.from_lark('start: "a"{1,3}', 4)
    assert accepts(grammar, "aa") and not accepts(grammar, "aaaa")
    with pytest.raises(Problem, match="needs a limit"):
        Grammar.from_lark("start: /a*/", None)
    with pytest.raises(Problem, match="does not compile"):
        Grammar.from_lark("start: missing", 4)


def _walk(node: Node, data: st.DataObject) -> bytes:
    """A member of a language, byte by byte."""
    reply = bytearray()
    while node.longest > 0 and not (node.shortest == 0 and data.draw(st.booleans())) and len(reply) < 40:
        steps: dict[int, Any] = {byte: after for byte in range(256) if (after := node.after(byte)) is not NOTHING}
        byte = data.draw(st.sampled_from(sorted(steps)))
        reply.append(byte)
        node = steps[byte]
    return bytes(reply) + node.closing()
