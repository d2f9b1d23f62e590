"""Output that is constrained fits its constraint, whatever the model wants."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

from litert_lm.errors import (
    ExecutionError,
    InvalidArgumentError,
    MissingExtraError,
    UnsupportedModelError,
)
from litert_lm.sampling.constraint.compiler import ConstraintCompiler, ConstraintSpec
from tests.sampling.constraint.walks import (
    KINDS,
    allowed_ids,
    constrain,
    model_of,
    walk,
)

pytest.importorskip("llguidance", reason="needs the extra structured")

CHOICES = ("red", "red car", " naïve", "日本語 😀", "foxjumps")
SCHEMA = {
    "type": "object",
    "properties": {
        "is_good": {"type": "boolean"},
        "name": {"enum": ["é", "日本"]},
        "ages": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    },
    "required": ["is_good", "name", "ages"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}


@pytest.fixture(params=KINDS)
def kind(request):
    """Each kind of tokenizer in turn."""
    return request.param


@pytest.mark.parametrize("text", CHOICES)
def test_a_single_choice_is_the_text(kind, text):
    output = walk(constrain(kind, "choice", (text,)), kind)
    assert output.is_ended
    assert output.text == text


@pytest.mark.parametrize("text", CHOICES)
def test_forced_tokens_are_those_of_the_tokenizer(kind, text):
    constraint = constrain(kind, "choice", (text,))
    output = walk(constraint, kind, takes_forced=True)
    assert output.text == text
    if kind in ("byte-level", "gemma", "sp-gemma"):  # others may leave the first free
        assert output.ids == model_of(kind)[0].encode(text)


def test_every_choice_comes_up(kind):
    constraint = constrain(kind, "choice", CHOICES)
    texts = {walk(constraint.fork(), kind, seed).text for seed in range(60)}
    assert texts == set(CHOICES)


@pytest.mark.parametrize("takes_forced", [False, True])
def test_random_documents_fit_their_schema(kind, takes_forced):
    constraint = constrain(kind, "json", json.dumps(SCHEMA))
    for seed in range(20):
        output = walk(constraint.fork(), kind, seed, takes_forced=takes_forced)
        if output.is_ended:
            value = json.loads(output.text)
            assert list(value) == SCHEMA["required"]
            assert isinstance(value["is_good"], bool)
            assert value["name"] in ("é", "日本")
            assert all(isinstance(age, int) for age in value["ages"])


def test_json_object_is_an_object(kind):
    assert "{" not in _texts(constrain(kind, "json", '{"type": "array"}'), kind)
    constraint = constrain(kind, "json_object")
    assert all(text[:1] in ("", "{") for text in _texts(constraint, kind))


def _texts(constraint, kind):
    tokenizer = model_of(kind)[0]
    return [tokenizer.decode([i]) for i in allowed_ids(constraint, kind)]


def test_a_regex_matches_the_whole_output(kind):
    constraint = constrain(kind, "regex", "(foo|ba[rz]é)+[0-9]{2}")
    for seed in range(20):
        output = walk(constraint.fork(), kind, seed)
        assert output.is_ended
        assert re.fullmatch("(foo|ba[rz]é)+[0-9]{2}", output.text)


def test_free_text_has_no_special_and_no_unknown_tokens(kind):
    tokenizer, _ = model_of(kind)
    allowed = set(allowed_ids(constrain(kind, "regex", r"(?s:.*)"), kind))
    ends = set(sorted(tokenizer.special_ids)[:2])
    assert allowed & tokenizer.special_ids == ends
    assert max(allowed) < tokenizer.vocab_size


def test_a_complete_output_can_only_end(kind):
    tokenizer, _ = model_of(kind)
    constraint = constrain(kind, "choice", ("red",))
    assert not constraint.is_accepting
    for token_id in tokenizer.encode("red"):
        constraint.accept(token_id)
    assert constraint.is_accepting
    assert allowed_ids(constraint, kind) == sorted(tokenizer.special_ids)[:2]
    assert constraint.forced_ids() == []


def test_an_end_may_be_taken_as_often_as_wanted(kind):
    constraint = constrain(kind, "choice", ("red",))
    output = walk(constraint, kind)
    constraint.accept(allowed_ids(constraint, kind)[0])
    constraint.rollback(len(output.ids) + 2)
    assert walk(constraint, kind).text == "red"


def test_going_back_is_a_fresh_replay(kind):
    constraint = constrain(kind, "json", json.dumps(SCHEMA))
    ids = walk(constraint.fork(), kind, 3).ids
    for token_id in ids:
        constraint.accept(token_id)
    for kept in range(len(ids), -1, -1):
        fresh = constrain(kind, "json", json.dumps(SCHEMA))
        for token_id in ids[:kept]:
            fresh.accept(token_id)
        assert allowed_ids(constraint, kind) == allowed_ids(fresh, kind)
        assert constraint.forced_ids() == fresh.forced_ids()
        if kept:
            constraint.rollback(1)


def test_forks_do_not_touch_each_other(kind):
    constraint = constrain(kind, "choice", CHOICES)
    before = allowed_ids(constraint, kind)
    texts = [walk(constraint.fork(), kind, seed).text for seed in range(5)]
    assert allowed_ids(constraint, kind) == before
    assert texts == [walk(constraint.fork(), kind, seed).text for seed in range(5)]


def test_a_token_that_does_not_fit_changes_nothing(kind):
    constraint = constrain(kind, "choice", ("red",))
    with pytest.raises(ExecutionError, match=r"Token 2 cannot come next .* choice"):
        constraint.accept(2)
    assert walk(constraint, kind).text == "red"


def test_nothing_more_than_was_accepted_is_taken_back():
    constraint = constrain("gemma", "choice", ("red",))
    with pytest.raises(InvalidArgumentError, match="1 tokens of 0"):
        constraint.rollback(1)


def test_logits_of_another_model_are_refused():
    constraint = constrain("gemma", "choice", ("red",))
    with pytest.raises(InvalidArgumentError, match="shape"):
        constraint.apply(np.zeros(3, np.float32))


@pytest.mark.parametrize("choices", [("☃",), ("a☃", "a")])
def test_choices_that_the_tokens_cannot_write_are_refused(choices):
    tokenizer, _ = model_of("metaspace")
    compiler = ConstraintCompiler(tokenizer, tokenizer.vocab_size, [1])
    with pytest.raises(InvalidArgumentError, match=r"no tokens for text 0, 'a?☃'"):
        compiler.compile(ConstraintSpec("choice", choices))


@pytest.mark.parametrize("kind", ["metaspace", "sp-nfkc"])
@pytest.mark.parametrize(
    "choices", [("brown 日本 fox",), ("aé", "aö"), ("日本語", "日本")]
)
def test_a_vocabulary_without_bytes_writes_what_it_has(kind, choices):
    constraint = constrain(kind, "choice", choices)
    texts = {walk(constraint.fork(), kind, seed).text for seed in range(20)}
    assert texts == set(choices)


def test_what_the_tokens_cannot_write_is_refused_at_once():
    tokenizer, _ = model_of("metaspace")
    compiler = ConstraintCompiler(tokenizer, tokenizer.vocab_size, [1])
    with pytest.raises(InvalidArgumentError, match=r"json_object .* tokens can write"):
        compiler.compile(ConstraintSpec("json_object"))


def test_tokens_that_depend_on_neighbours_are_refused():
    tokenizer, _ = model_of("word-piece")
    compiler = ConstraintCompiler(tokenizer, tokenizer.vocab_size, [1])
    with pytest.raises(UnsupportedModelError, match="tokens around it"):
        compiler.compile(ConstraintSpec("json_object"))


def test_a_model_without_stop_token_is_refused():
    tokenizer, _ = model_of("gemma")
    compiler = ConstraintCompiler(tokenizer, tokenizer.vocab_size, [])
    with pytest.raises(UnsupportedModelError, match="token that ends it"):
        compiler.compile(ConstraintSpec("json_object"))


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    tokenizer, _ = model_of("gemma")
    compiler = ConstraintCompiler(tokenizer, tokenizer.vocab_size, [1])
    with pytest.raises(MissingExtraError, match=r'pip install "pylitert-lm\[struct'):
        compiler.compile(ConstraintSpec("json_object"))
