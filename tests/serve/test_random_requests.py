"""Random requests that are valid: both RPCs agree, and what is counted adds up."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.conformance import VOCAB_SIZE, id_of
from tests.serve.client import Client, joined

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,-"
IDS = st.integers(3, VOCAB_SIZE - 1)  # no special token
CANDIDATES = st.one_of(
    st.builds(lambda n: {"top_n": n}, st.integers(0, 2 * VOCAB_SIZE)),
    st.builds(lambda ids: {"ids": ids}, st.lists(IDS, max_size=4)),
    st.sampled_from([{"all": True}, {"all": False}, {}]),
)


def penalty() -> st.SearchStrategy[float]:
    return st.floats(-2, 2, width=32)


SAMPLING = st.fixed_dictionaries(
    {
        "temperature": st.floats(0, 2, width=32),
        "seed": st.integers(-(2**63), 2**63 - 1),
    },
    optional={
        "top_k": st.integers(0, 2**32 - 1),
        "top_p": st.floats(0, 1, width=32, exclude_min=True),
        "min_p": st.floats(0, 1, width=32),
    },
)
DECODING = st.fixed_dictionaries(
    {},
    optional={
        "presence_penalty": penalty(),
        "frequency_penalty": penalty(),
        "repetition_penalty": st.floats(0.0625, 4, width=32),
        "logit_bias": st.dictionaries(IDS, st.floats(-50, 50, width=32), max_size=5),
    },
)
STOPPING = st.fixed_dictionaries(
    {"max_new_tokens": st.integers(1, 30)},
    optional={
        "stop_token_ids": st.lists(IDS, max_size=3),
        "stop_strings": st.lists(st.text(LETTERS, min_size=1, max_size=3), max_size=3),
        "include_stop_strings": st.booleans(),
        "ignore_eos": st.booleans(),
    },
)
RESPONSE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_token_ids": st.booleans(),
        "prompt_logprobs": st.booleans(),
        "prompt_candidates": CANDIDATES,
        "output_text": st.booleans(),
        "output_token_ids": st.booleans(),
        "output_logprobs": st.booleans(),
        "output_candidates": CANDIDATES,
    },
)
OTHER = st.fixed_dictionaries(
    {},
    optional={
        "request_id": st.text(max_size=9),
        "model": st.sampled_from(["", "toy", "other"]),
        "bypass_prefix_cache": st.booleans(),
        "cache_salt": st.text(max_size=4),
        "truncate_prompt_tokens": st.integers(0, 60),
        "priority": st.integers(-(2**31), 2**31 - 1),
    },
)
CHOSEN = st.one_of(
    st.just({}),
    st.just({}),
    st.builds(
        lambda ids: {"allowed_token_ids": ids}, st.lists(IDS, min_size=1, max_size=9)
    ),
    st.sampled_from(
        [{"choice": ["red", "green"]}, {"regex": "[a-f]{1,9}"}, {"json_object": False}]
    ),
    st.builds(lambda n: {"min_new_tokens": n}, st.integers(0, 1)),
)
PROMPTS = st.text(LETTERS, min_size=1, max_size=60) | st.lists(
    st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=60
)


def together(*parts: st.SearchStrategy[dict[str, Any]]) -> Any:
    """Fields of several strategies in one dictionary."""
    return st.tuples(*parts).map(
        lambda drawn: {name: value for part in drawn for name, value in part.items()}
    )


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(PROMPTS, together(SAMPLING, DECODING, STOPPING, RESPONSE, OTHER, CHOSEN))
def test_both_rpcs_agree(client: Client, prompt: Any, fields: dict[str, Any]) -> None:
    whole = client.generate(prompt, **fields)
    streamed = joined(client.stream(prompt, **fields))
    if fields["temperature"] < 1e-5 or fields["seed"] != -1:
        assert streamed == whole
    check_counts(fields, whole)
    check_counts(fields, streamed)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(PROMPTS, st.integers(2, 5), st.integers(0, 99), together(STOPPING, RESPONSE))
def test_several_sequences_are_the_single_ones(
    client: Client, prompt: Any, count: int, seed: int, fields: dict[str, Any]
) -> None:
    fields = {**fields, "temperature": 1.0}
    messages = client.stream(prompt, num_sequences=count, seed=seed, **fields)
    for index in range(count):
        alone = client.generate(prompt, seed=seed + index, **fields).outputs
        found = joined(messages, index).outputs
        found.index = 0
        assert found == alone


def check_counts(fields: dict[str, Any], answer: Any) -> None:
    """Each list is as long as it says, or empty when it was not asked for."""
    info, output = answer.prompt_info, answer.outputs
    count = output.num_tokens
    assert 1 <= count == output.finish_info.num_output_tokens
    assert count <= fields["max_new_tokens"]
    assert output.finish_info.finish_reason in (1, 2)
    scored = fields.get("output_logprobs", False)
    assert len(output.token_ids) == count * fields.get("output_token_ids", False)
    assert len(output.logprobs) == len(output.ranks) == count * scored
    if not fields.get("output_text", True):
        assert output.text == ""
    size = info.num_prompt_tokens
    scored = fields.get("prompt_logprobs", False)
    assert len(info.token_ids) == size * fields.get("prompt_token_ids", False)
    assert len(info.logprobs) == len(info.ranks) == size * scored


def test_the_letters_are_tokens() -> None:
    assert all(id_of(letter) >= 3 for letter in LETTERS)
