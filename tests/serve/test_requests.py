"""What a request must hold, and what it gets by default."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.fixtures.conformance import BOS, CONTEXT, VOCAB_SIZE, greedy_ids, id_of
from tests.serve.client import Client, RunningServer, joined
from tests.serve.requests import request

SCORED = {"output_token_ids": True, "output_logprobs": True}


def test_text_alone_gets_up_to_20_tokens_and_nothing_unasked(client: Client) -> None:
    made = client.generate("abc")
    output = made.outputs
    assert made.prompt_info.num_prompt_tokens == 3
    assert not made.prompt_info.token_ids
    assert output.index == 0
    assert 1 <= output.finish_info.num_output_tokens <= 20
    assert output.num_tokens == output.finish_info.num_output_tokens
    unasked = output.token_ids, output.logprobs, output.ranks, output.candidate_tokens
    assert not any(unasked)


@pytest.mark.parametrize("prompt", [None, [], [5, VOCAB_SIZE], [1, 2**32 - 1]])
def test_a_prompt_is_needed_with_ids_that_exist(client: Client, prompt: Any) -> None:
    assert client.code(prompt) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["", "toy", "other"])
def test_a_served_name_or_none(client: Client, name: str) -> None:
    assert client.generate(model=name) == client.generate()


def test_another_name_is_not_found(client: Client) -> None:
    assert client.code(model="nope") == "NOT_FOUND"
    assert "'nope'" in client.failure(model="nope").details


def test_a_request_id_may_be_used_twice_at_once(client: Client) -> None:
    prompts = ["abcabc", "xyz"]
    alone = [joined(client.stream(p, **SCORED)) for p in prompts]
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(
            lambda p: joined(client.stream(p, request_id="same", **SCORED)), prompts
        )
        assert list(both) == alone


def test_ids_of_a_text_prompt_make_the_same_prompt(client: Client) -> None:
    first = client.generate("hi you", prompt_token_ids=True, output_token_ids=True)
    ids = list(first.prompt_info.token_ids)
    assert ids[0] == BOS
    again = client.generate(ids, prompt_token_ids=True, output_token_ids=True)
    assert again == first


def test_the_stream_joined_is_the_unary_answer(client: Client) -> None:
    options = {**SCORED, "prompt_token_ids": True, "output_candidates": {"top_n": 2}}
    whole = client.generate("stream", **options)
    assert joined(client.stream("stream", **options)) == whole
    assert whole.outputs.num_tokens == whole.outputs.finish_info.num_output_tokens


@pytest.mark.parametrize("options", [{}, {"seed": 4, "temperature": 1.0}])
def test_a_stream_begins_with_the_prompt_and_ends_with_a_reason(
    client: Client, options: dict[str, Any]
) -> None:
    first, *rest = client.stream("abc", **options)
    assert first.HasField("prompt_info") and not first.HasField("outputs")
    assert not any(message.HasField("prompt_info") for message in rest)
    ended = [message.outputs.HasField("finish_info") for message in rest]
    assert ended == [False] * (len(rest) - 1) + [True]
    assert rest[-1].outputs.finish_info.finish_reason != 0


def test_without_text_tokens_are_still_counted(client: Client) -> None:
    messages = client.stream("abc", output_text=False)
    outputs = joined(messages).outputs
    assert outputs.text == "" and not outputs.token_ids
    assert outputs.num_tokens == outputs.finish_info.num_output_tokens > 0


def test_the_context_bounds_prompt_and_answer(client: Client) -> None:
    prompt = [id_of("x")] * (CONTEXT - 5)
    options = {"max_new_tokens": 50, "ignore_eos": True}
    output = client.output(prompt, **options)
    assert (len(output.token_ids), output.finish_info.finish_reason) == (5, 1)
    assert client.code([id_of("x")] * CONTEXT) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("count", [3, 5, 80])
def test_truncation_keeps_the_end_of_the_prompt(client: Client, count: int) -> None:
    options = {"prompt_token_ids": True, "prompt_logprobs": True}
    whole = client.generate("wxyz", **options).prompt_info
    cut = client.generate("wxyz", truncate_prompt_tokens=count, **options).prompt_info
    expected = list(whole.token_ids)[-count:]
    assert list(cut.token_ids) == expected
    assert cut.num_prompt_tokens == len(expected)
    assert len(cut.logprobs) == len(cut.ranks) == len(expected)


WRONG = [
    *(("temperature", value) for value in (-0.1, 2.5, math.nan, math.inf)),
    *(("top_p", value) for value in (-0.1, 1.5, math.nan)),
    *(("min_p", value) for value in (-0.1, 1.5, math.nan)),
    *(("presence_penalty", value) for value in (-2.1, 2.1, math.nan)),
    *(("frequency_penalty", value) for value in (-2.1, 2.1, math.inf)),
    *(("repetition_penalty", value) for value in (-1.0, math.nan, math.inf)),
]
ON_THE_EDGE = [
    *(("temperature", value) for value in (0.0, 0.01, 2.0)),
    ("top_p", 1.0),
    ("min_p", 1.0),
    *(("presence_penalty", value) for value in (-2.0, 2.0)),
    *(("frequency_penalty", value) for value in (-2.0, 2.0)),
    ("repetition_penalty", 0.01),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_number_is_refused_by_name(
    client: Client, name: str, value: float
) -> None:
    assert client.code(**{name: value}) == "INVALID_ARGUMENT"
    assert name in client.failure(**{name: value}).details


@pytest.mark.parametrize(("name", "value"), ON_THE_EDGE)
def test_a_number_at_the_edge_is_taken(client: Client, name: str, value: float) -> None:
    assert client.output(**{name: value}).num_tokens > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {VOCAB_SIZE: 1.0}},
        {"logit_bias": {2**32 - 1: 1.0}},
        {"logit_bias": {3: math.nan}},
        {"logit_bias": {3: math.inf}},
        {"allowed_token_ids": [VOCAB_SIZE]},
        {"stop_token_ids": [VOCAB_SIZE]},
        {"output_logprobs": True, "output_candidates": {"ids": [VOCAB_SIZE]}},
        {"prompt_logprobs": True, "prompt_candidates": {"ids": [VOCAB_SIZE]}},
    ],
)
def test_token_ids_beyond_the_vocabulary_are_refused(
    client: Client, fields: dict[str, Any]
) -> None:
    assert client.code(**fields) == "INVALID_ARGUMENT"


def test_the_length_is_as_asked_for_else_20(client: Client) -> None:
    prompt = [BOS, id_of("ab"), id_of("c")]
    for asked, length in ((7, 7), (0, 20)):
        output = client.output(max_new_tokens=asked, ignore_eos=True)
        assert list(output.token_ids) == greedy_ids(prompt, length)
        assert output.finish_info.finish_reason == 1
        assert output.finish_info.WhichOneof("stop_reason") is None


def test_an_answer_is_not_shorter_than_its_minimum(client: Client) -> None:
    failure = client.failure(min_new_tokens=5, max_new_tokens=4)
    assert failure.code.name == "INVALID_ARGUMENT"
    assert "5" in failure.details and "4" in failure.details
    output = client.output(min_new_tokens=4, max_new_tokens=4)
    assert (output.num_tokens, output.finish_info.finish_reason) == (4, 1)


def test_both_services_answer_alike(server: RunningServer) -> None:
    newer = Client(server.channel, "vllm.Inference")
    assert newer.generate() == server.client.generate()
    assert newer.stream() and joined(newer.stream()) == newer.generate()


@pytest.mark.parametrize(
    "kv",
    [{}, {"bypass_prefix_cache": True}, {"cache_salt": "x"}, {"cache_salt": "y"}],
)
def test_the_prefix_cache_changes_nothing(client: Client, kv: dict[str, Any]) -> None:
    prompt = "the prefix cache keeps a long prompt like this one"
    first = client.generate(prompt, **SCORED)
    assert client.generate(prompt, **SCORED, **kv) == first


def test_an_exported_state_goes_on_elsewhere(client: Client) -> None:
    asking = {"kv_transfer_params": {"do_remote_decode": True}}
    exported = client.output("transfer this", max_new_tokens=1, **asking)
    params = exported.finish_info.kv_transfer_params
    assert params.fields["do_remote_prefill"].bool_value
    options = {"max_new_tokens": 9, "output_token_ids": True}
    whole = client.generate("transfer this", **options)
    from google.protobuf.json_format import MessageToDict

    again = client.generate(
        "transfer this", kv_transfer_params=MessageToDict(params), **options
    )
    assert again == whole


@pytest.mark.parametrize(
    ("change", "outcome"), [({}, "imported"), ({"kv_handle": "gone"}, "recomputed")]
)
@pytest.mark.parametrize("rpc", ["unary", "streamed"])
def test_the_trailing_metadata_says_what_became_of_an_import(
    client: Client, rpc: str, change: dict[str, Any], outcome: str
) -> None:
    asking = {"kv_transfer_params": {"do_remote_decode": True}}
    exported = client.output("transfer this", max_new_tokens=1, **asking)
    params = dict(exported.finish_info.kv_transfer_params) | change
    message = request("transfer this", kv_transfer_params=params)
    if rpc == "unary":
        _, call = client.unary.with_call(message)
    else:
        call = client.streamed(message)
        list(call)
    assert ("litert-lm-kv-transfer", outcome) in call.trailing_metadata()
