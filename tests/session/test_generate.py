"""generate and generate_stream: shape of responses, prompts, limits, arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from litert_lm.errors import (
    ContextFullError,
    InvalidArgumentError,
    PromptTooLongError,
)
from litert_lm.generate.response import FinishReason
from tests.fixtures.llama import CONTEXT, reference_logits
from tests.fixtures.llama_tokens import BOS, EOS, PIECES

END = "<eot>"


def test_shape_of_a_whole_answer(speaker):
    response = speaker(["xyz", END]).generate(">")
    assert response.text == "xyz"
    assert response.finish_reason is FinishReason.STOP
    assert response.prompt_info.num_prompt_tokens == 2
    assert response.prompt_info.token_ids == (1, 72)
    (output,) = response.outputs
    assert (output.index, output.num_tokens) == (0, 4)
    assert output.token_ids == (130, 131, 132, 3)
    assert (output.logprobs, output.ranks, output.candidate_tokens) == ((), (), ())
    assert output.finish_info.num_output_tokens == 4
    assert output.finish_info.eos_token_id == 3


def test_stream_begins_with_the_prompt_and_ends_with_a_reason(speaker):
    chunks = list(speaker(["xyz", END]).generate_stream(">"))
    assert chunks[0].prompt_info.token_ids == (1, 72)
    assert chunks[0].outputs == ()
    assert all(chunk.prompt_info is None for chunk in chunks[1:])
    assert [chunk.text for chunk in chunks[1:]] == ["x", "y", "z", ""]
    reasons = [chunk.finish_reason for chunk in chunks]
    assert reasons == [FinishReason.NOT_FINISHED] * 4 + [FinishReason.STOP]


def test_chunks_add_up_to_the_whole_answer(llama):
    options = {"max_new_tokens": 30, "output_logprobs": True, "temperature": 0.0}
    whole = llama.create_session().generate("ab", **options).outputs[0]
    chunks = list(llama.create_session().generate_stream("ab", **options))
    parts = [output for chunk in chunks for output in chunk.outputs]
    assert "".join(part.text for part in parts) == whole.text
    for name in ("token_ids", "logprobs", "ranks"):
        joined = sum((getattr(part, name) for part in parts), ())
        assert joined == getattr(whole, name)


def test_text_prompts_are_put_together_as_by_run_prefill(echoing):
    engine = echoing()
    with engine.create_session() as session:
        text = session.generate("a").text
    with engine.create_session() as session:
        session.run_prefill(["a"])
        assert session.run_decode().texts == [text] == ["[bos][U][:][a][;][M][>]"]


def test_token_ids_are_taken_verbatim(echoing):
    session = echoing().create_session()
    response = session.generate([107, 108])
    assert response.text == "[a][b]"
    assert response.prompt_info.token_ids == (107, 108)


def test_token_ids_may_be_numpy_integers(echoing):
    session = echoing().create_session()
    assert session.generate(np.array([107, 108])).text == "[a][b]"


def test_turns_follow_each_other_in_one_context(echoing):
    session = echoing(kv_length=128).create_session()
    first = "[bos][U][:][a][;][M][>]"
    assert session.generate("a").text == first
    second = f"{first}{first}[eot][U][:][b][;][M][>]"
    assert session.generate("b", max_new_tokens=60).text == second


def test_generate_after_run_prefill_goes_on_in_the_turn(echoing):
    session = echoing().create_session()
    session.run_prefill(["a"])
    assert session.generate("b").text == "[bos][U][:][a][b][;][M][>]"


def test_special_tokens_do_not_show(speaker):
    response = speaker(["<think>", "a", "<eos>", END]).generate(">")
    assert response.text == "a"
    assert response.outputs[0].num_tokens == 4


def test_limit_is_20_tokens_when_nothing_is_said(speaker):
    response = speaker("x").generate(">")
    assert response.text == "x" * 20
    assert response.finish_reason is FinishReason.LENGTH
    finish = response.outputs[0].finish_info
    assert (finish.stop_token_id, finish.eos_token_id, finish.stop_string) == (
        None,
        None,
        None,
    )


def test_limit_of_the_session_and_of_the_call(speaker):
    session = speaker("x", max_output_tokens=3)
    assert session.generate(">").text == "xxx"
    assert session.generate(">", max_new_tokens=5).text == "xxxxx"


def test_a_minimum_raises_the_default_limit(speaker):
    assert len(speaker("x").generate(">", min_new_tokens=30).text) == 30


def test_context_full_ends_with_length_and_the_next_call_says_so(llama):
    session = llama.create_session()
    options = {"max_new_tokens": 500, "ignore_eos": True}
    response = session.generate([5] * 10, **options)
    assert response.outputs[0].num_tokens == CONTEXT - 10
    assert response.finish_reason is FinishReason.LENGTH
    with pytest.raises(ContextFullError, match=f"{CONTEXT} tokens is full"):
        session.generate([5], **options)


def test_a_prompt_too_long_says_by_how_much(llama):
    session = llama.create_session()
    with pytest.raises(PromptTooLongError, match=r"140 tokens, 13 too many"):
        session.generate([5] * 140)
    assert session.generate([5] * 10, max_new_tokens=1).outputs[0].num_tokens == 1


def test_logprobs_and_ranks_are_the_models_own(llama):
    output = (
        llama.create_session().generate([BOS, 5, 6], output_logprobs=True).outputs[0]
    )
    ids = [BOS, 5, 6]
    for token_id, logprob, rank in zip(
        output.token_ids, output.logprobs, output.ranks, strict=True
    ):
        logits = reference_logits(ids)[-1]
        expected = logits[token_id] - math.log(np.exp(logits).sum())
        assert logprob == pytest.approx(expected, abs=1e-5)
        assert rank == 1
        ids.append(token_id)


def test_greedy_text_of_the_toy_llama(llama):
    output = llama.create_session().generate([BOS, 3, 4], max_new_tokens=40).outputs[0]
    ids = [BOS, 3, 4]
    while len(ids) < 43 and ids[-1] != EOS:
        ids.append(int(reference_logits(ids)[-1].argmax()))
    assert list(output.token_ids) == ids[3:]
    hidden = ("<pad>", "<bos>", "<eos>")
    plain = [PIECES[i] for i in ids[3:] if not PIECES[i].startswith("<0x")]
    for piece in plain:
        assert piece in hidden or piece in output.text


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -0.1},
        {"temperature": 2.5},
        {"temperature": math.nan},
        {"temperature": "hot"},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_p": math.nan},
        {"min_p": -0.1},
        {"min_p": 1.5},
        {"seed": 1 << 63},
        {"seed": True},
        {"max_new_tokens": 0},
        {"max_new_tokens": -1},
        {"min_new_tokens": 5, "max_new_tokens": 4},
        {"min_new_tokens": -1},
        {"stop_token_ids": [64]},
        {"stop_token_ids": [-1]},
        {"stop_token_ids": 5},
        {"stop_token_ids": ["a"]},
        {"stop_strings": [""]},
        {"stop_strings": "ab"},
        {"stop_strings": [5]},
        {"include_stop_strings": "yes"},
        {"ignore_eos": 1},
        {"output_logprobs": 1},
    ],
    ids=str,
)
def test_wrong_arguments_are_found_at_the_call(llama, options):
    session = llama.create_session()
    with pytest.raises(InvalidArgumentError, match=next(iter(options))) as caught:
        session.generate_stream("a", **options)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "prompt", [[], [64], [-1], [1.5], None, b"ab", 5, ["a"]], ids=repr
)
def test_wrong_prompts_are_found_at_the_call(llama, prompt):
    session = llama.create_session()
    with pytest.raises(InvalidArgumentError):
        session.generate_stream(prompt)
    assert session.token_ids == ()


def test_empty_text_is_a_prompt_only_with_a_bos(llama, open_engine, make_llama_bundle):
    response = llama.create_session().generate("", max_new_tokens=1)
    assert response.prompt_info.token_ids == (BOS,)
    engine = open_engine(make_llama_bundle(start_token=None))
    with pytest.raises(InvalidArgumentError, match="no tokens"):
        engine.create_session().generate("")


def test_unknown_options_are_a_type_error_that_lists_the_known(llama):
    session = llama.create_session()
    with pytest.raises(TypeError, match=r"'temprature'.*temperature"):
        session.generate_stream("a", temprature=1.0)


def test_boundaries_are_allowed(llama):
    session = llama.create_session()
    for options in (
        {"temperature": 2.0, "top_p": 1.0, "min_p": 1.0, "top_k": 640},
        {"temperature": 0.01, "min_p": 0.0, "top_k": 0, "seed": -1},
        {"min_new_tokens": 4, "max_new_tokens": 4},
    ):
        response = session.generate("a", **(options | {"max_new_tokens": 4}))
        assert response.outputs[0].num_tokens <= 4
