"""Rows of the conformance table about structured output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from litert_lm.errors import InvalidArgumentError, NoTokenLeftError
from tests.fixtures.conformance import EOS, id_of
from tests.generate.rows import A, B, finish_of, ids_of

pytest.importorskip("llguidance")

BLANKS = {id_of(" "): -100.0, id_of("\n"): -100.0}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
EBNF = 'root ::= "a" ("b" | "c") "d"'
LARK = 'start: "a" ("b" | "c") "d"'


def test_v33_stop_strings_inside_a_choice(engine: Any) -> None:
    options = {"choice": ["hello stop world"], "stop_strings": ["stop"]}
    response = engine.generate("x", **options)
    assert (response.text, finish_of(response)) == ("hello ", ("STOP", "stop"))
    chunks = list(engine.generate_stream("x", **options))
    assert "".join(chunk.text for chunk in chunks) == "hello "


def test_v35_characters_come_whole(engine: Any) -> None:
    chunks = list(engine.generate_stream("x", choice=["aé€b"]))
    assert "".join(chunk.text for chunk in chunks) == "aé€b"
    assert all("\ufffd" not in chunk.text for chunk in chunks)


def test_v46_choice(engine: Any) -> None:
    response = engine.generate("x", choice=["red", "green"])
    assert response.text in ("red", "green")
    assert finish_of(response) == ("STOP", EOS)


def test_v46_json_object(engine: Any) -> None:
    response = engine.generate("x", json_object=True, logit_bias={id_of("}"): 100.0})
    assert json.loads(response.text) == {}
    assert finish_of(response) == ("STOP", EOS)


@pytest.mark.parametrize("schema", [SCHEMA, json.dumps(SCHEMA)], ids=["dict", "text"])
def test_v46_json(engine: Any, schema: Any) -> None:
    response = engine.generate(
        "x", json=schema, logit_bias=BLANKS, max_new_tokens=60, temperature=1.0, seed=1
    )
    assert isinstance(json.loads(response.text)["a"], bool)
    assert finish_of(response) == ("STOP", EOS)


@pytest.mark.parametrize("grammar", [EBNF, LARK], ids=["ebnf", "lark"])
def test_v47_grammars(engine: Any, grammar: str) -> None:
    for seed in range(4):
        response = engine.generate("x", grammar=grammar, temperature=1.0, seed=seed)
        assert response.text in ("abd", "acd")


def test_regex(engine: Any) -> None:
    response = engine.generate("x", regex="[0-9]{3}-[a-c]+x", max_new_tokens=100)
    assert response.text[:3].isdigit()


def test_v48_a_document_cut_by_length_says_so(engine: Any) -> None:
    response = engine.generate("x", json=SCHEMA, logit_bias=BLANKS, max_new_tokens=2)
    assert finish_of(response) == ("LENGTH", None)
    assert len(ids_of(response)) == 2
    assert '{"a":true}'.startswith(response.text)


@pytest.mark.parametrize(
    "options",
    [
        {"json": "{"},
        {"json": " "},
        {"regex": "("},
        {"grammar": "  "},
        {"choice": []},
        {"choice": "red"},
        {"choice": [5]},
        {"structural_tag": "x"},
        {"structural_tag": 5},
        {"json_object": "yes"},
        {"json": "{}", "regex": "a"},
        {"json": {"a": {1, 2}}},
    ],
    ids=str,
)
def test_v49_wrong_constraints_are_found_at_the_call(engine: Any, options: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        engine.generate_stream("x", **options)


def test_v50_the_earliest_stop_in_a_choice(engine: Any) -> None:
    response = engine.generate("x", choice=["abcabc"], stop_strings=["ca"])
    assert (response.text, finish_of(response)) == ("ab", ("STOP", "ca"))


def test_json_object_false_is_no_constraint(engine: Any) -> None:
    assert engine.generate("x", json_object=False) == engine.generate("x")


def test_forced_tokens_are_the_same_with_and_without_logprobs(engine: Any) -> None:
    for kind in ({"choice": ["hello world", "hello there"]}, {"json": SCHEMA}):
        options = {"max_new_tokens": 50, **kind}
        plain = engine.generate("x", **options)
        scored = engine.generate("x", output_logprobs=True, **options)
        assert ids_of(plain) == ids_of(scored)
        assert len(scored.outputs[0].logprobs) == len(ids_of(plain))


def test_a_session_goes_on_behind_forced_tokens(engine: Any) -> None:
    session = engine.create_session(apply_prompt_template=False)
    first = session.generate("x", choice=["hello"], max_new_tokens=3)
    again = session.generate([5, 6], max_new_tokens=4, ignore_eos=True)
    prompt = [*first.prompt_info.token_ids, *ids_of(first), 5, 6]
    fresh = engine.generate(prompt, max_new_tokens=4, ignore_eos=True)
    assert ids_of(again) == ids_of(fresh)


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_token_ids": [EOS], "min_new_tokens": 2},
        {"choice": ["a"], "allowed_token_ids": [B]},
        {"stop_token_ids": [A], "allowed_token_ids": [A], "min_new_tokens": 1},
    ],
    ids=str,
)
def test_no_possible_first_token_is_found_at_the_call(
    engine: Any, options: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="allowed_token_ids"):
        engine.generate_stream("x", **options)


def test_no_token_at_a_later_step_ends_the_call_not_the_session(engine: Any) -> None:
    session = engine.create_session(apply_prompt_template=False)
    with pytest.raises(NoTokenLeftError) as caught:
        session.generate("x", choice=["a"], min_new_tokens=3)
    assert caught.value.grpc_status == "FAILED_PRECONDITION"
    assert session.token_ids[-1] == A
    assert session.generate([5]).outputs[0].num_tokens


def test_several_answers_have_a_grammar_each(engine: Any) -> None:
    response = engine.generate(
        "x", choice=["red", "green"], num_sequences=6, temperature=2.0, seed=1
    )
    texts = [output.text for output in response.outputs]
    assert len(texts) == 6
    assert set(texts) == {"red", "green"}
