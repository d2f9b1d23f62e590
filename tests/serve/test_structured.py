"""Structured output over the wire."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.fixtures.conformance import EOS, id_of
from tests.serve.client import Client

pytest.importorskip("llguidance", reason="needs the extra structured")

STOP, LENGTH = 2, 1
LONG = {"max_new_tokens": 60}
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
)
NO_SPACE = {id_of(" "): -100.0, id_of("\n"): -100.0}


def finished(output: Any) -> str:
    """The text of an answer that ended by itself."""
    assert output.finish_info.finish_reason == STOP
    assert output.finish_info.eos_token_id == EOS
    return str(output.text)


def test_a_choice_is_one_of_its_strings(client: Client) -> None:
    assert finished(client.output(choice=["red", "green"])) in ("red", "green")


def test_a_json_object(client: Client) -> None:
    bias = {id_of("}"): 100.0}
    assert json.loads(finished(client.output(json_object=True, logit_bias=bias))) == {}


def test_a_schema(client: Client) -> None:
    output = client.output(json=SCHEMA, logit_bias=NO_SPACE, **LONG)
    assert list(json.loads(finished(output))) == ["ok"]


def test_a_regular_expression_holds_for_the_whole(client: Client) -> None:
    pattern = "[a-c]{2,4}x"
    assert re.fullmatch(pattern, finished(client.output(regex=pattern)))


@pytest.mark.parametrize(
    "grammar", ['root ::= ("a" | "b") "cd"', 'start: ("a" | "b") "cd"']
)
def test_a_grammar(client: Client, grammar: str) -> None:
    assert finished(client.output(grammar=grammar)) in ("acd", "bcd")


def test_a_structural_tag(client: Client) -> None:
    tag = {
        "structures": [{"begin": "<f>", "schema": json.loads(SCHEMA), "end": "</f>"}],
        "triggers": ["<f>"],
    }
    output = client.output(
        structural_tag=json.dumps(tag),
        logit_bias={**NO_SPACE, id_of("<f>"): 100.0},
        max_new_tokens=30,
    )
    inside = re.match(r"<f>(.*?)</f>", output.text)
    assert inside and list(json.loads(inside[1])) == ["ok"]


def test_a_document_cut_short_says_so(client: Client) -> None:
    output = client.output(json=SCHEMA, logit_bias=NO_SPACE, max_new_tokens=2)
    assert (output.num_tokens, output.finish_info.finish_reason) == (2, LENGTH)
    assert '{"ok":true}'.startswith(output.text)


@pytest.mark.parametrize(
    "fields",
    [
        {"json": "{"},
        {"json": "  "},
        {"regex": "("},
        {"grammar": "  "},
        {"grammar": "start: ("},
        {"grammar": "root ::= ("},
        {"choice": []},
        {"structural_tag": "x"},
        {"structural_tag": "{}"},
    ],
)
def test_a_wrong_one_is_refused_before_any_message(
    client: Client, fields: dict[str, Any]
) -> None:
    assert client.code(**fields) == "INVALID_ARGUMENT"
    assert next(iter(fields)) in client.failure(**fields).details


def test_a_stop_string_works_within(client: Client) -> None:
    output = client.output(choice=["abcabc"], stop_strings=["ca"])
    assert (output.text, output.finish_info.stop_string) == ("ab", "ca")


def test_json_object_false_is_no_constraint(client: Client) -> None:
    assert client.output(json_object=False) == client.output()


def test_masks_that_leave_nothing_are_refused(client: Client) -> None:
    fields = {"allowed_token_ids": [EOS], "min_new_tokens": 2}
    assert client.code(**fields) == "INVALID_ARGUMENT"
    after = {"choice": ["a"], "min_new_tokens": 5}
    assert client.failure(**after).code.name in (
        "INVALID_ARGUMENT",
        "FAILED_PRECONDITION",
    )
    assert client.generate()
