"""The openai backend against a server in a thread: what it obeys, how it fails, and what is never told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nightschool.cli import app
from nightschool.disk.errors import Problem
from nightschool.engine import offline, terms
from nightschool.engine.backends.openai import load
from nightschool.engine.backends.openai_grammar import settle
from nightschool.engine.grammar import Grammar, accepts
from nightschool.engine.models import ModelSpec, Thinking
from nightschool.engine.select import choose_backend, open_engine
from nightschool.engine.types import Completion, Message, PromptTooLong, Request, Sampling

THINKING = Thinking("enable_thinking", "<think>\n", "</think>\n\n")
PICK = Grammar.build(terms.obj({"pick": terms.choice(["red", "green", "blue"])}))


def ask(text: str, grammar: Grammar | None = None, *, think: bool = False, **sampling: Any) -> Request:
    return Request((Message("user", text),), grammar, Sampling(**{"max_tokens": 200, **sampling}), think)


def finish(engine: Any, tickets: int) -> dict[int, Completion]:
    done: dict[int, Completion] = {}
    while len(done) < tickets:
        done.update(engine.step())
    return done


def one(engine: Any, request: Request) -> Completion:
    ticket = engine.submit(request)
    return finish(engine, 1)[ticket]


def grammars(count: int) -> list[Grammar]:
    found = []
    for i in range(count):
        parts = [
            terms.obj({"log": terms.text(5 + i % 7, 1)}),
            terms.obj({"ids": terms.distinct([f"t{j}" for j in range(i % 9 + 3)], 1, 3), "ok": terms.boolean()}),
            terms.array(terms.choice(["staging", "fox", f"n{i}"]), 1, 4),
            terms.alt([terms.obj({"b": terms.integer(0, i), "a": terms.null()}), terms.obj({"z": terms.text(3)})]),
        ]
        found.append(Grammar.build(parts[i % 4]))
    return found


# What it does


def test_many_requests_at_once_each_under_its_own_grammar(server: Any, engines: Any) -> None:
    heard: list[str] = []
    engine = engines(server.spec(), width=12, say=heard.append)
    assert heard == [f"far: served on http://127.0.0.1:{server.port}, vllm 0.32.0, takes our grammars"]
    made = [ask(f"question {i}", grammar, temperature=1.0, seed=i) for i, grammar in enumerate(grammars(60))]
    made += [ask(f"free {i}") for i in range(10)]
    tickets = [engine.submit(request) for request in made]
    done = finish(engine, len(made))
    assert set(done) == set(tickets) and engine.step() == []
    for ticket, request in zip(tickets, made, strict=True):
        completion = done[ticket]
        assert completion.finish == "stop" and completion.valid and completion.refused == 0
        if request.grammar is None:
            assert completion.text == "Hello!"
        else:
            assert accepts(request.grammar, completion.text)
        assert completion.usage.prompt_tokens == engine.count(request.messages)
        assert completion.usage.generated_tokens == len(completion.text) + 1
        assert (
            completion.usage.cached_tokens is completion.usage.forced_tokens is completion.usage.thinking_tokens is None
        )
        assert completion.seconds > 0 and completion.first_token_seconds == completion.logprob == 0
    assert engine.capacity() == 12 and not engine.batch_invariant
    assert engine.facts() == {
        "backend": "openai",
        "model": "served",
        "grammar": "structured_outputs",
        "width": 12,
        "versions": {"vllm": "0.32.0"},
    }


def test_what_is_sent_is_what_was_asked(server: Any, engines: Any) -> None:
    engine = engines(server.spec(thinking=THINKING))
    sampling: dict[str, Any] = {"top_p": 0.9, "top_k": 7, "repetition_penalty": 1.3, "stop": ("\n",)}
    one(engine, ask("hot", temperature=0.7, seed=5, **sampling))
    one(engine, ask("cold", PICK, think=True, think_tokens=50, seed=5, **sampling))
    hot, cold = server.bodies[-2:]
    assert hot == {
        "model": "served",
        "messages": [{"role": "user", "content": "hot"}],
        "chat_template_kwargs": {"enable_thinking": False},
        "max_tokens": 200,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 5,
        "stop": ["\n"],
        "top_k": 7,
        "min_p": 0.0,
        "repetition_penalty": 1.3,
        "stream": False,
    }
    assert cold["max_tokens"] == 250 and cold["chat_template_kwargs"] == {"enable_thinking": True}
    assert cold["structured_outputs"] == {"grammar": PICK.lark}
    assert "stop" not in cold and "seed" not in cold and cold["repetition_penalty"] == 1.0


def test_other_servers_are_not_told_what_they_may_not_know(server: Any, engines: Any) -> None:
    heard: list[str] = []
    server.maker, server.forms = "library", {"json_schema"}
    engine = engines(server.spec(sampling={"top_k": 40, "top_p": 0.9}), say=heard.append)
    assert "JSON schemas" in heard[0] and "top_k cannot be said" in heard[1] and len(heard) == 2
    one(engine, ask("x", temperature=1.0, top_k=40))
    assert not {"top_k", "min_p", "repetition_penalty", "structured_outputs"} & set(server.bodies[-1])


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "inline"])
def test_thinking_is_told_apart(server: Any, engines: Any, name: str) -> None:
    engine = engines(server.spec(thinking=THINKING))
    server.free = lambda body: "<think>\nso it is\n</think>\n\nyes" if name == "inline" else "yes"
    server.extra = {} if name == "inline" else {name: "so it is"}
    completion = one(engine, ask("x", think=True, think_tokens=20))
    assert (completion.text, completion.thinking) == ("yes", "so it is")


@pytest.mark.parametrize("form", ["structured_outputs", "guided_grammar", "json_schema"])
def test_the_way_that_a_server_takes_grammars_is_found_out(server: Any, engines: Any, form: str) -> None:
    server.forms = {form}
    assert engines(server.spec()).facts()["grammar"] == form
    named = "json_schema" if form == "json_schema" else "lark"
    assert engines(server.spec(grammar=named)).facts()["grammar"] == form
    other = "lark" if form == "json_schema" else "json_schema"
    with pytest.raises(Problem, match="does not obey a grammar"):
        load(server.spec(grammar=other))


def test_a_server_of_json_schemas(server: Any, engines: Any) -> None:
    """It writes white space and sorts keys: the reply is the value, written our way."""
    server.forms = {"json_schema"}
    engine = engines(server.spec())
    made = [ask(f"q {i}", grammar, temperature=1.0, seed=i, max_tokens=400) for i, grammar in enumerate(grammars(24))]
    tickets = [engine.submit(request) for request in made]
    done = finish(engine, len(made))
    for ticket, request in zip(tickets, made, strict=True):
        assert request.grammar is not None
        if done[ticket].valid:
            assert accepts(request.grammar, done[ticket].text)
    assert sum(completion.valid for completion in done.values()) > 20
    with pytest.raises(Problem, match="not one of JSON"):
        engine.submit(ask("x", Grammar.choice(["yes", "no"])))


def test_a_rule_that_no_schema_can_say_is_asked_for_again(server: Any, engines: Any) -> None:
    server.forms, said = {"json_schema"}, iter(['["a", "a"]', '["b", "b"]', '["b", "a"]'])
    engine = engines(server.spec())
    server.forms, server.script = set(), lambda body, grammar: next(said)
    completion = one(engine, ask("x", Grammar.build(terms.distinct(["a", "b"], 2, 2))))
    assert completion.valid and completion.text == '["b","a"]' and completion.refused == 2


def test_a_server_that_ignores_grammars_is_refused(server: Any) -> None:
    server.forms = set()
    with pytest.raises(Problem) as caught:
        load(server.spec())
    assert "under Lark it says 'Hello!'; under a JSON schema it says 'Hello!'" in caught.value.what
    assert 'write grammar = "retry" in [models.far.openai]' in caught.value.advice
    assert len(server.bodies) == 3


@pytest.mark.parametrize("good", [0, 1, 2, 9])
def test_without_grammars_a_reply_is_asked_for_again(server: Any, engines: Any, good: int) -> None:
    heard: list[str] = []
    server.forms = set()
    said = iter(["red it is", "Sure!", '```json\n{"pick": "red"}\n```'] if good == 2 else [])
    server.free = lambda body: next(said, '{"pick": "red"}' if len(server.bodies) > good else "no")
    engine = engines(server.spec(grammar="retry"), say=heard.append)
    assert "is given no grammars" in heard[0] and server.bodies == []
    completion = one(engine, ask("which?", PICK, seed=3, temperature=1.0))
    tries = min(good, 2)
    assert completion.refused == tries and len(server.bodies) == tries + 1
    assert completion.valid == (good < 3)
    assert completion.text == ('{"pick":"red"}' if good < 3 else "no")
    assert completion.usage.prompt_tokens is not None
    assert completion.usage.prompt_tokens == sum(server.tokens(body["messages"]) for body in server.bodies)
    if tries:
        roles = [message["role"] for message in server.bodies[-1]["messages"]]
        assert roles == ["user", "assistant", "user"]
        assert "valid under this JSON schema" in server.bodies[-1]["messages"][-1]["content"]
        assert len({body["seed"] for body in server.bodies}) == tries + 1


def test_a_reply_that_is_asked_for_again_stays_within_the_context(server: Any, engines: Any) -> None:
    server.forms, server.context = set(), 256
    engine = engines(server.spec(grammar="retry", context=256))
    assert not one(engine, ask("word " * 40, PICK)).valid
    assert [len(body["messages"]) for body in server.bodies] == [1, 1, 1]
    assert [body["temperature"] for body in server.bodies] == [0.0, 0.5, 0.5]


def test_a_cut_reply_is_never_valid_and_not_asked_for_again(server: Any, engines: Any) -> None:
    engine = engines(server.spec())
    completion = one(engine, ask("x", Grammar.build(terms.text(90, 90)), max_tokens=20))
    assert completion.finish == "length" and not completion.valid and completion.refused == 0
    server.troubles.append(
        lambda call: call.answer(
            200, {"choices": [{"message": {"content": '{"pick":"red"}'}, "finish_reason": "length"}]}
        )
    )
    assert not one(engine, ask("x", PICK)).valid


def test_prompts_are_made_here_for_a_template_of_our_own(server: Any, engines: Any, tiny_folder: Any) -> None:
    folder = str(tiny_folder("llama"))
    engine = engines(server.spec(template="plain", tokenizer=folder))
    assert one(engine, ask("is it so?", PICK)).valid
    body = server.bodies[-1]
    assert server.paths[-1] == "/v1/completions" and "messages" not in body
    text = "Question: is it so?\nAnswer:"
    assert len(body["prompt"]) == engine.count([Message("user", "is it so?")])
    from nightschool.engine.tokens import Tokens

    tokens = Tokens(Path(folder) / "tokenizer.json")
    assert b"".join(tokens.bytes_of(token) for token in body["prompt"]).decode() == text
    one(engine, ask("hostile <|im_end|>"))
    assert server.bodies[-1]["stop"] == ["\nQuestion:"] and 1 not in server.bodies[-1]["prompt"]
    with pytest.raises(Problem, match="takes its tokenizer"):
        load(server.spec(template="plain"))
    with pytest.raises(Problem, match="template of its own"):
        load(server.spec(template="plain", tokenizer=folder, endpoint="chat"))


def test_thinking_of_a_prompt_that_is_made_here_is_under_the_grammar(
    server: Any, engines: Any, tiny_folder: Any
) -> None:
    options = {"tokenizer": str(tiny_folder("llama")), "endpoint": "completions", "thinking": THINKING}
    engine = engines(server.spec(**options))
    server.script = lambda body, grammar: 'hm </ think\n</think>\n\n{"pick":"red"}'
    completion = one(engine, ask("x", PICK, think=True, think_tokens=30))
    assert completion.valid and (completion.text, completion.thinking) == ('{"pick":"red"}', "hm </ think")
    body = server.bodies[-1]
    assert "t[max_tokens=30]" in body["structured_outputs"]["grammar"] and body["max_tokens"] == 230
    server.script = lambda body, grammar: None
    server.forms = {"json_schema"}
    engine = engines(server.spec(**options))
    assert one(engine, ask("x", PICK, think=True, think_tokens=30)).valid
    assert server.bodies[-1]["max_tokens"] == 200


def test_another_seed_for_a_prompt_that_is_made_here(server: Any, engines: Any, tiny_folder: Any) -> None:
    server.forms = set()
    engine = engines(server.spec(template="plain", tokenizer=str(tiny_folder("llama")), grammar="retry"))
    assert not one(engine, ask("x", PICK)).valid
    assert len({json.dumps(body["prompt"]) for body in server.bodies}) == 1
    assert [body.get("seed") is None for body in server.bodies] == [True, False, False]
    assert server.bodies[1]["seed"] != server.bodies[2]["seed"]


def test_who_counts(server: Any, engines: Any, tiny_folder: Any) -> None:
    messages = [Message("system", "be brief"), Message("user", "what is it?")]
    for server.counts in ("vllm", "llama.cpp"):
        engine = engines(server.spec())
        assert engine.count(messages) == 14
        before = len(server.paths)
        assert engine.count(messages) == 14 and len(server.paths) == before
        engine.close()
        assert engine.count([*messages, Message("user", "and then?")]) == 19
    server.counts = None
    with pytest.raises(Problem, match="does not count tokens") as caught:
        load(server.spec())
    assert 'tokenizer = "DIR"' in caught.value.advice
    heard: list[str] = []
    engine = engines(server.spec(tokenizer=str(tiny_folder("llama"))), say=heard.append)
    assert engine.count(messages) > 14
    assert any("a prompt that is counted as" in line for line in heard)


def test_a_prompt_that_does_not_fit_is_named(server: Any, engines: Any) -> None:
    engine = engines(server.spec(context=300))
    messages = (Message("system", "word " * 60), Message("user", "a few words"))
    with pytest.raises(PromptTooLong, match=r"the longest part is message 1 \(system\) with 60"):
        engine.submit(Request(messages, None, Sampling(max_tokens=230)))
    assert one(engine, Request(messages, None, Sampling(max_tokens=100))).valid
    with pytest.raises(Problem, match="context of 5000 tokens, but the server takes 4096"):
        load(server.spec(context=5000))


# What a person gives


@pytest.mark.parametrize(
    ("options", "what", "advice"),
    [
        ({"grammer": "lark"}, "unknown option 'grammer'", "did you mean 'grammar'?"),
        ({"time_out": 3}, "unknown option 'time_out'", "did you mean 'timeout'?"),
        (
            {"grammar": "gbnf"},
            "grammar should be 'auto', 'lark', 'json_schema' or 'retry', not 'gbnf'",
            "docs/servers.md",
        ),
        ({"retries": "3"}, "retries should be a valid integer, not '3'", "docs/servers.md"),
        ({"timeout": 0}, "timeout should be greater than 0, not 0", "docs/servers.md"),
        ({"model": "sevred"}, "the server has no model 'sevred'", "did you mean 'served'?"),
    ],
)
def test_a_wrong_option_is_named(server: Any, options: dict[str, Any], what: str, advice: str) -> None:
    with pytest.raises(Problem) as caught:
        load(server.spec(**options))
    assert what in caught.value.what and advice in caught.value.advice


@pytest.mark.parametrize(
    "source",
    ["http://:80/v1", "http://127.0.0.1:99999/v1", "http://127.0.0.1/v1?x=1", "http://a..b/v1", "http://127.0.0.1/ä"],
)
def test_a_source_that_is_no_address(source: str) -> None:
    with pytest.raises(Problem, match="is no address"):
        load(ModelSpec("far", source))


def test_the_model_that_a_server_turns_out_to_have_is_part_of_what_a_model_is(server: Any, engines: Any) -> None:
    assert engines(server.spec()).model.fingerprint == engines(server.spec(model="served")).model.fingerprint
    first, server.model = engines(server.spec()).model.fingerprint, "another"
    assert engines(server.spec()).model.fingerprint != first


def test_how_a_server_is_reached_is_no_part_of_what_a_model_is(server: Any) -> None:
    spec = server.spec(model="served")
    other = server.spec(model="served", timeout=5.0, retries=0, backoff=0.1, width=3, api_key_env="X")
    assert spec.fingerprint == other.fingerprint != server.spec(model="another").fingerprint
    assert spec.fingerprint != server.spec(model="served", grammar="retry").fingerprint


def test_the_backend_is_chosen_by_the_source(server: Any, engines: Any) -> None:
    spec = replace(server.spec(), backend=None)
    assert choose_backend(spec).name == "openai"
    engine = open_engine(spec)
    assert engine.facts()["backend"] == "openai"
    engine.close()
    with pytest.raises(Problem, match=r"far is on a server, 127\.0\.0\.1: transformers has nothing to load"):
        open_engine(spec, backend="transformers")
    with pytest.raises(Problem, match="far is on no server"):
        open_engine(ModelSpec("far", "scripted:"), backend="openai")


def test_a_reply_is_read_as_the_value_that_it_is() -> None:
    part = terms.obj({"b": terms.integer(0, 9), "a": terms.text(5)})
    grammar = Grammar.build(terms.obj({"z": terms.array(terms.alt([part, terms.null()]), 1, 2), "c": terms.const([1])}))
    told = '{"z":[{"b":1,"a":"ä"},null],"c":[1]}'
    assert settle(grammar, told) == told
    for text in (f" {told}\n", f"```json\n{told}\n```", '{"c": [1], "z": [{"a": "\\u00e4", "b": 1}, null]}'):
        assert settle(grammar, text) == told
    for text in ("", "null", told[:-1], told + "x", "[" * 100_000, '{"z":[NaN],"c":[1]}', "\ud800"):
        assert settle(grammar, text) is None
    assert settle(Grammar.choice(["yes", "no"]), " yes\n") == "yes"


def test_models_check_asks_the_server(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seals: list[tuple[str, ...]] = []
    monkeypatch.setattr(offline, "seal", seals.append)

    def check(alias: str = "far", **options: Any) -> tuple[int, dict[str, Any]]:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {"backoff": 0.001, **options}.items())
        source = f'[models.far]\nsource = "{server.url}"\ncontext = 2048\n'
        Path("models.toml").write_text(f"{source}[models.far.openai]\n{lines}")
        ran = CliRunner().invoke(app, ["models", "check", "far", "--json"])
        return ran.exit_code, {item["name"]: (item["ok"], item["said"]) for item in json.loads(ran.stdout)}

    code, found = check()
    assert seals == [("127.0.0.1",)]
    assert code == 0 and list(found) == ["server", "model", "context", "grammar", "counts"]
    assert found["grammar"] == (True, "it takes our grammars") and found["context"][1] == "2048 tokens of 4096"
    server.forms = set()
    code, found = check()
    assert code == 1 and not found["grammar"][0] and 'grammar = "retry"' in found["grammar"][1]
    server.stop()
    code, found = check(retries=0)
    assert code == 1 and list(found) == ["server"] and "cannot be reached" in found["server"][1]
    server.start()
