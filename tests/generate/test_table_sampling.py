"""Rows of the conformance table about sampling, masks and penalties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from litert_lm.errors import InvalidArgumentError
from tests.fixtures.conformance import EOS, VOCAB_SIZE, greedy_ids, logits_after
from tests.generate.rows import A, B, C, ids_of, logprobs_after

PROMPT = [1, 5, 6]
FREE = {"max_new_tokens": 12, "ignore_eos": True}
ONE = {"max_new_tokens": 1, "temperature": 1.0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-0.1, 2.5, math.nan, math.inf)),
        *(("top_p", value) for value in (-0.1, 1.5, math.nan, 0.0)),
        *(("min_p", value) for value in (-0.1, 1.5)),
        *(("presence_penalty", value) for value in (-2.1, 2.1, math.nan)),
        *(("frequency_penalty", value) for value in (-2.1, 2.1)),
        *(("repetition_penalty", value) for value in (-1.0, 0.0, math.inf, math.nan)),
        *(("logit_bias", {3: value}) for value in (math.nan, math.inf, 1e39, "a")),
        *(("logit_bias", value) for value in ([3], {"a": 1.0}, {VOCAB_SIZE: 1.0})),
        *(("allowed_token_ids", value) for value in ([VOCAB_SIZE], [-1], 5)),
        *(("num_sequences", value) for value in (0, -1, 129, 20000, 1.5)),
        ("output_candidates", [VOCAB_SIZE]),
        ("output_candidates", -1),
        ("prompt_candidates", "most"),
        ("prompt_candidates", True),
        ("truncate_prompt_tokens", -1),
        ("priority", 1 << 31),
        ("cache_salt", 5),
        ("request_id", "\ud800"),
        ("kv_transfer_params", [1]),
        ("output_text", 1),
    ],
    ids=str,
)
def test_v11_v24_wrong_values_are_named(engine: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        engine.generate_stream("a", **{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 2.0, "top_p": 1.0, "min_p": 1.0},
        {"temperature": 0.01, "presence_penalty": 2.0, "frequency_penalty": -2.0},
        {"repetition_penalty": 2.5, "logit_bias": {A: 3e38, B: -3e38}},
        {"repetition_penalty": 1e-30, "logit_bias": {A: 3e38}, "temperature": 1.0},
        {"repetition_penalty": 5e-324, "presence_penalty": -2.0},
        {"repetition_penalty": 1e308, "temperature": 1.0},
    ],
    ids=str,
)
def test_v11_boundaries_are_taken(engine: Any, options: Any) -> None:
    assert engine.generate("ab", **options).outputs[0].num_tokens >= 1


def test_v12_v13_what_is_greedy(engine: Any) -> None:
    greedy = greedy_ids(PROMPT, 12)
    for options in (
        {},
        {"temperature": 0.0},
        {"temperature": 1.0, "top_k": 1, "seed": 5},
        {"temperature": 0.0, "top_k": 5, "top_p": 0.5, "min_p": 0.3, "seed": 9},
        {"temperature": 1.0, "min_p": 1.0},
    ):
        assert ids_of(engine.generate(PROMPT, **FREE, **options)) == greedy


def test_v14_v15_seeds(engine: Any) -> None:
    def drawn(**options: Any) -> tuple[int, ...]:
        made = engine.generate(PROMPT, temperature=1.5, **FREE, **options)
        return tuple(ids_of(made))

    assert len({drawn(seed=42) for _ in range(3)}) == 1
    assert drawn(seed=0) == drawn(seed=0)
    assert len({drawn() for _ in range(5)}) > 1
    assert len({drawn(seed=seed) for seed in range(1, 6)}) > 1
    assert len({drawn(seed=-1) for _ in range(3)}) > 1


def test_v16_top_k_draws_from_the_k_best(engine: Any) -> None:
    best = set(np.argsort(-logits_after(PROMPT))[:4].tolist())
    drawn = {
        ids_of(engine.generate(PROMPT, top_k=4, seed=seed, **ONE))[0]
        for seed in range(60)
    }
    assert drawn == best


def test_v17_top_p_draws_from_the_smallest_set(engine: Any) -> None:
    shares = np.exp(logprobs_after(PROMPT))
    order = np.argsort(-shares)
    count = int((shares[order].cumsum() < 0.7).sum()) + 1
    drawn = {
        ids_of(engine.generate(PROMPT, top_p=0.7, seed=seed, **ONE))[0]
        for seed in range(60)
    }
    assert 1 < len(drawn) <= count
    assert drawn <= set(order[:count].tolist())


def test_v19_a_top_k_beyond_the_vocabulary_is_none(engine: Any) -> None:
    options = FREE | {"temperature": 1.0, "seed": 3}
    assert ids_of(engine.generate(PROMPT, top_k=10 * VOCAB_SIZE, **options)) == ids_of(
        engine.generate(PROMPT, **options)
    )


def test_v22_only_allowed_tokens(engine: Any) -> None:
    options = {"ignore_eos": True, "max_new_tokens": 6}
    assert ids_of(engine.generate("x", allowed_token_ids=[A], **options)) == [A] * 6
    drawn = engine.generate(
        "x", allowed_token_ids=[A, B], temperature=1.5, max_new_tokens=40, seed=1
    )
    assert set(ids_of(drawn)) == {A, B}


def test_v23_bias_lifts_and_bans(engine: Any) -> None:
    lifted = engine.generate(PROMPT, logit_bias={A: 100.0}, temperature=2.0, **FREE)
    assert set(ids_of(lifted)) == {A}
    (best,) = greedy_ids(PROMPT, 1)
    banned = engine.generate(PROMPT, logit_bias={best: -100}, temperature=2.0, **FREE)
    assert best not in ids_of(banned)


def test_a_bias_cannot_lift_a_masked_token(engine: Any) -> None:
    options = {"allowed_token_ids": [A], "logit_bias": {B: 100.0}}
    assert set(ids_of(engine.generate("x", **options))) == {A}


def test_v25_penalties_of_generated_tokens_pass_over_the_prompt(engine: Any) -> None:
    (best,) = greedy_ids([7, 7], 1)
    prompt = [best] * 5 + [7, 7]
    response = engine.generate(
        prompt, presence_penalty=2.0, frequency_penalty=2.0, max_new_tokens=1
    )
    assert ids_of(response) == [best]


def test_v26_presence_and_frequency_add_up(engine: Any) -> None:
    response = engine.generate(
        PROMPT,
        allowed_token_ids=[A, B],
        logit_bias={A: 60.0, B: 60.0},
        presence_penalty=1.3,
        frequency_penalty=0.7,
        max_new_tokens=12,
    )
    known, counts = list(PROMPT), {A: 0, B: 0}
    for token_id in ids_of(response):
        scores = {
            each: logits_after(known)[each] - 1.3 * (count > 0) - 0.7 * count
            for each, count in counts.items()
        }
        assert token_id == max(scores, key=lambda each: scores[each])
        counts[token_id] += 1
        known.append(token_id)


@pytest.mark.parametrize("bias", [60.0, -60.0])
def test_repetition_weakens_whichever_sign(engine: Any, bias: float) -> None:
    prompt, seen, other = [A, C, C], A, B
    options = {"allowed_token_ids": [A, B], "logit_bias": {A: bias, B: bias}}
    response = engine.generate(
        prompt, repetition_penalty=100.0, max_new_tokens=1, **options
    )
    assert ids_of(response) == [other]
    rewarded = engine.generate(
        prompt, repetition_penalty=0.01, max_new_tokens=1, **options
    )
    assert ids_of(rewarded) == [seen]


def test_repetition_counts_what_a_session_holds(engine: Any) -> None:
    session = engine.create_session(apply_prompt_template=False)
    session.run_prefill(["a"])
    options = {"allowed_token_ids": [A, B], "logit_bias": {A: 60.0, B: 60.0}}
    response = session.generate(
        [C], repetition_penalty=9.0, max_new_tokens=1, **options
    )
    assert ids_of(response) == [B]


def test_answers_without_temperature_can_be_several_never(engine: Any) -> None:
    for options in ({}, {"temperature": 0.0}, {"temperature": 9e-6}):
        with pytest.raises(InvalidArgumentError, match="num_sequences is 2"):
            engine.generate_stream("a", num_sequences=2, **options)


def test_one_token_to_choose_from_gives_several_equal_answers(engine: Any) -> None:
    for options in ({"top_k": 1}, {"min_p": 1.0}):
        response = engine.generate("a", num_sequences=2, temperature=1.0, **options)
        first, second = (output.token_ids for output in response.outputs)
        assert first == second == tuple(ids_of(engine.generate("a")))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["top_p", "repetition_penalty"])
def test_what_must_be_above_zero_says_so(engine: Any, name: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be finite, above 0"):
        engine.generate("a", **{name: value})


def test_a_minimum_hides_eos_even_where_it_is_ignored(engine: Any) -> None:
    options = {"logit_bias": {EOS: 100.0}, "ignore_eos": True, "max_new_tokens": 5}
    response = engine.generate("a", min_new_tokens=3, **options)
    assert [token == EOS for token in ids_of(response)] == [False] * 3 + [True] * 2
