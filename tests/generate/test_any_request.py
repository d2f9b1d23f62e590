"""Requests of any shape: whole and streamed agree, or an error of ours says why not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litert_lm.errors import LiteRtLmError
from litert_lm.generate.response import join
from tests.fixtures.conformance import VOCAB_SIZE

pytest.importorskip("llguidance")

IDS = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=12)
CANDIDATES = st.one_of(st.integers(0, 70), IDS, st.just("all"))
PROMPTS = st.one_of(st.text("abtop <f>é{}", max_size=20), IDS)
VALID: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.floats(0, 2),
    "num_sequences": st.integers(1, 3),
    "top_k": st.integers(0, 100),
    "top_p": st.floats(0, 1, exclude_min=True),
    "min_p": st.floats(0, 1),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(1e-3, 1e3),
    "logit_bias": st.dictionaries(
        st.integers(0, VOCAB_SIZE - 1), st.floats(-200, 200), max_size=5
    ),
    "allowed_token_ids": IDS,
    "choice": st.lists(st.text("abop", min_size=1, max_size=6), min_size=1, max_size=4),
    "regex": st.sampled_from(["[ab]+", "(ab|top)*", "a{3,9}"]),
    "max_new_tokens": st.integers(1, 30),
    "min_new_tokens": st.integers(0, 20),
    "stop_token_ids": IDS,
    "stop_strings": st.lists(st.text("abé", min_size=1, max_size=3), max_size=3),
    "include_stop_strings": st.booleans(),
    "ignore_eos": st.booleans(),
    "prompt_logprobs": st.booleans(),
    "prompt_candidates": CANDIDATES,
    "output_text": st.booleans(),
    "output_logprobs": st.booleans(),
    "output_candidates": CANDIDATES,
    "bypass_prefix_cache": st.booleans(),
    "cache_salt": st.sampled_from(["", "x"]),
    "truncate_prompt_tokens": st.integers(0, 30),
    "priority": st.integers(-5, 5),
}
SOME = st.lists(st.sampled_from(sorted(VALID)), max_size=6, unique=True).flatmap(
    lambda names: st.fixed_dictionaries(
        {"temperature": VALID["temperature"], "seed": st.integers(0, 9)}
        | {name: VALID[name] for name in names}
    )
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.one_of(st.integers(-2, 99), st.text(max_size=2)), max_size=4),
    st.dictionaries(st.one_of(st.integers(), st.text(max_size=2)), st.floats()),
)
ANY = st.lists(st.sampled_from(sorted(VALID)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries(dict.fromkeys(names, ODD))
)
HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=60, deadline=None, suppress_health_check=HEALTH)
@given(prompt=PROMPTS, options=SOME)
def test_valid_requests(engine: Any, prompt: Any, options: dict[str, Any]) -> None:
    try:
        chunks = list(engine.generate_stream(prompt, **options))
    except LiteRtLmError as error:
        assert error.grpc_status in ("INVALID_ARGUMENT", "FAILED_PRECONDITION")
        return
    whole = join(chunks)
    again = engine.generate(prompt, **options)
    assert again.outputs == whole.outputs
    for output in whole.outputs:
        count = output.finish_info.num_output_tokens
        assert count == output.num_tokens == len(output.token_ids)
        assert len(output.logprobs) == (count if options.get("output_logprobs") else 0)
        assert all(not math.isnan(each) for each in output.logprobs)


@settings(max_examples=150, deadline=None, suppress_health_check=HEALTH)
@given(prompt=st.one_of(PROMPTS, ODD), options=ANY)
def test_hostile_requests(engine: Any, prompt: Any, options: dict[str, Any]) -> None:
    try:
        engine.generate(prompt, **options)
    except LiteRtLmError as error:
        assert error.grpc_status in ("INVALID_ARGUMENT", "FAILED_PRECONDITION")
    assert engine.generate([1], max_new_tokens=1).outputs[0].num_tokens == 1
