"""Rows of the conformance table about prompts and the shape of answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from litert_lm import FinishReason
from litert_lm.errors import InvalidArgumentError
from litert_lm.generate.response import join
from tests.fixtures.conformance import BOS, CONTEXT, VOCAB_SIZE
from tests.generate.rows import finish_of, ids_of

GREEDY = {"max_new_tokens": 12, "ignore_eos": True}


def test_v01_text_alone(engine: Any) -> None:
    response = engine.generate("hello")
    (output,) = response.outputs
    assert response.prompt_info.num_prompt_tokens == 6
    assert output.index == 0
    assert 1 <= output.finish_info.num_output_tokens <= 20
    assert (output.logprobs, output.ranks, output.candidate_tokens) == ((), (), ())


@pytest.mark.parametrize("prompt", [None, [], [VOCAB_SIZE], [BOS, -1]], ids=str)
def test_v02_wrong_prompts(engine: Any, prompt: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="prompt"):
        engine.generate_stream(prompt)


def test_v05_ids_of_a_text_prompt_are_the_same_prompt(engine: Any) -> None:
    first = engine.generate("hello", **GREEDY)
    again = engine.generate(first.prompt_info.token_ids, **GREEDY)
    assert first.prompt_info.token_ids[0] == BOS
    assert again.prompt_info == first.prompt_info
    assert again.outputs == first.outputs


def test_v06_a_stream_adds_up_to_the_answer(engine: Any) -> None:
    options = GREEDY | {"output_logprobs": True, "output_candidates": 2}
    chunks = list(engine.generate_stream("hello", **options))
    assert join(chunks) == engine.generate("hello", **options)


def test_v07_prompt_info_comes_first_and_the_end_last(engine: Any) -> None:
    chunks = list(engine.generate_stream("hello", **GREEDY))
    infos = [chunk.prompt_info is not None for chunk in chunks]
    ends = [bool(o.finish_info) for chunk in chunks for o in chunk.outputs]
    assert infos == [True] + [False] * (len(chunks) - 1)
    assert ends == [False] * (len(ends) - 1) + [True]
    assert chunks[-1].finish_reason is FinishReason.LENGTH


def test_v08_no_text_but_counts(engine: Any) -> None:
    chunks = list(engine.generate_stream("hello", output_text=False, **GREEDY))
    outputs = [output for chunk in chunks for output in chunk.outputs]
    assert {output.text for output in outputs} == {""}
    assert sum(output.num_tokens for output in outputs) == 12
    assert outputs[-1].finish_info.num_output_tokens == 12


def test_v08_stop_strings_work_without_text(engine: Any) -> None:
    whole = engine.generate("hello", **GREEDY).text
    response = engine.generate(
        "hello", output_text=False, stop_strings=[whole[3:5]], **GREEDY
    )
    assert response.text == ""
    assert finish_of(response) == ("STOP", whole[3:5])


def test_v09_the_context_ends_an_answer(engine: Any) -> None:
    options = {"max_new_tokens": 50, "ignore_eos": True}
    response = engine.generate([5] * (CONTEXT - 5), **options)
    assert len(ids_of(response)) == 5
    assert finish_of(response) == ("LENGTH", None)
    with pytest.raises(InvalidArgumentError, match=f"{CONTEXT} tokens, 1 too many"):
        engine.generate_stream([5] * CONTEXT)


@pytest.mark.parametrize("kept", [3, 6, 20])
def test_v10_truncation_keeps_the_end(engine: Any, kept: int) -> None:
    whole = engine.generate("hello").prompt_info.token_ids
    info = engine.generate(
        "hello", truncate_prompt_tokens=kept, prompt_logprobs=True
    ).prompt_info
    assert info.token_ids == whole[-kept:]
    assert info.num_prompt_tokens == len(info.logprobs) == len(info.ranks)


def test_v10_truncation_must_leave_room(engine: Any) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"truncate_prompt_tokens is 100.*29"
    ):
        engine.generate_stream("hi", truncate_prompt_tokens=100, max_new_tokens=29)


def test_a_long_prompt_fits_when_truncated(engine: Any) -> None:
    response = engine.generate([5] * 500, truncate_prompt_tokens=10)
    assert response.prompt_info.num_prompt_tokens == 10


def test_truncation_in_a_session_cuts_what_the_call_adds(engine: Any) -> None:
    session = engine.create_session()
    session.generate([5, 6, 7], max_new_tokens=1)
    session.generate([8, 9, 10], max_new_tokens=1, truncate_prompt_tokens=2)
    assert session.token_ids[4:6] == (9, 10)


def test_v44_the_prefix_cache_changes_nothing(engine: Any) -> None:
    prompt = list(range(3, 60))
    options = ({}, {}, {"bypass_prefix_cache": True}, {"cache_salt": "x"})
    answers = [engine.generate(prompt, **GREEDY, **each) for each in options]
    assert all(each.outputs == answers[0].outputs for each in answers)


def test_a_prompt_asked_again_is_known(engine: Any) -> None:
    prompt = list(range(3, 60))
    first, again = (engine.generate(prompt).prompt_info for _ in range(2))
    assert first.num_cached_tokens == 0
    assert again.num_cached_tokens > 0
    for options in ({"bypass_prefix_cache": True}, {"cache_salt": "other"}):
        assert engine.generate(prompt, **options).prompt_info.num_cached_tokens == 0


def test_sessions_and_stateless_calls_agree(engine: Any) -> None:
    session = engine.create_session(apply_prompt_template=False)
    assert session.generate("hello", **GREEDY) == engine.generate("hello", **GREEDY)


def test_without_a_verifying_signature_too(
    open_engine: Callable[..., Any], make_conformance_bundle: Callable[..., Any]
) -> None:
    engine = open_engine(make_conformance_bundle(decode=1, prefill_8=8))
    info = engine.generate("hello there", prompt_logprobs=True).prompt_info
    assert len(info.logprobs) == info.num_prompt_tokens
