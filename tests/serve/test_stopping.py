"""When an answer ends, what of it is shown, and why it says it ended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.conformance import EOS, id_of
from tests.fixtures.llama_tokens import THREE_BYTES, TWO_BYTES
from tests.serve.client import Client, joined

A, B = id_of("a"), id_of("b")
LENGTH, STOP = 1, 2
ONLY_A = {"allowed_token_ids": [A]}


def outcome(output: Any) -> tuple[list[int], str, int]:
    return list(output.token_ids), output.text, output.finish_info.finish_reason


def test_eos_ends_an_answer_without_a_trace_in_its_text(client: Client) -> None:
    output = client.output(allowed_token_ids=[EOS])
    assert outcome(output) == ([EOS], "", STOP)
    assert output.finish_info.WhichOneof("stop_reason") == "eos_token_id"
    assert output.finish_info.eos_token_id == EOS
    assert output.finish_info.num_output_tokens == 1


def test_eos_can_be_ignored_and_wins_over_the_length(client: Client) -> None:
    ignored = client.output(allowed_token_ids=[EOS], ignore_eos=True, max_new_tokens=5)
    assert outcome(ignored) == ([EOS] * 5, "", LENGTH)
    last = client.output(allowed_token_ids=[EOS], max_new_tokens=1)
    assert last.finish_info.finish_reason == STOP


@pytest.mark.parametrize(("is_included", "text"), [(False, ""), (True, "a")])
def test_a_stop_token_is_counted_and_hidden(
    client: Client, is_included: bool, text: str
) -> None:
    output = client.output(
        **ONLY_A, stop_token_ids=[A], include_stop_strings=is_included
    )
    assert outcome(output) == ([A], text, STOP)
    assert output.finish_info.WhichOneof("stop_reason") == "stop_token_id"
    assert output.finish_info.stop_token_id == A


def test_stop_tokens_are_masked_before_the_minimum(client: Client) -> None:
    output = client.output(
        allowed_token_ids=[A, B],
        logit_bias={A: 100.0},
        stop_token_ids=[A],
        min_new_tokens=4,
    )
    assert list(output.token_ids) == [B, B, B, B, A]
    assert output.finish_info.stop_token_id == A


@pytest.mark.parametrize(("is_included", "text"), [(False, ""), (True, "aaa")])
def test_a_stop_string_keeps_its_tokens(
    client: Client, is_included: bool, text: str
) -> None:
    output = client.output(
        **ONLY_A, stop_strings=["aaa"], include_stop_strings=is_included
    )
    assert outcome(output) == ([A] * 3, text, STOP)
    assert output.finish_info.stop_string == "aaa"


def test_a_stop_string_cuts_forced_text_on_both_rpcs(client: Client) -> None:
    fields = {"choice": ["hello stop world"], "stop_strings": ["stop"]}
    fields["max_new_tokens"] = 40
    output = client.output(**fields)
    assert (output.text, output.finish_info.stop_string) == ("hello ", "stop")
    streamed = joined(client.stream(output_token_ids=True, **fields)).outputs
    assert streamed == output


def test_the_first_stop_string_to_complete_wins(client: Client) -> None:
    assert client.code(stop_strings=[""]) == "INVALID_ARGUMENT"
    output = client.output(**ONLY_A, stop_strings=["aaaa", "aa"])
    assert (output.num_tokens, output.finish_info.stop_string) == (2, "aa")


def test_characters_are_whole_in_every_message(client: Client) -> None:
    text = f"{TWO_BYTES}a{THREE_BYTES}{THREE_BYTES}"
    messages = client.stream(choice=[text], max_new_tokens=40)
    assert "�" not in "".join(m.outputs.text for m in messages)
    assert joined(messages).outputs.text == text


def test_what_was_held_back_is_given_out_at_the_end(client: Client) -> None:
    fields = {"stop_strings": ["aab"], "max_new_tokens": 6}
    output = joined(client.stream(**ONLY_A, **fields)).outputs
    assert (output.text, output.finish_info.finish_reason) == ("aaaaaa", LENGTH)


def test_a_stop_string_works_without_text(client: Client) -> None:
    output = client.output(**ONLY_A, stop_strings=["aa"], output_text=False)
    assert outcome(output) == ([A, A], "", STOP)
    assert output.finish_info.stop_string == "aa"


def test_an_id_that_is_zero_is_still_a_reason(client: Client) -> None:
    output = client.output(allowed_token_ids=[0], stop_token_ids=[0])
    assert output.finish_info.WhichOneof("stop_reason") == "stop_token_id"
