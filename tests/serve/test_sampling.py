"""How tokens are drawn, seen from a client."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.fixtures.conformance import BOS, VOCAB_SIZE, greedy_ids, id_of, logits_after
from tests.serve.client import Client, joined

A, B = id_of("a"), id_of("b")
PROMPT = [BOS, id_of("q"), id_of("r")]
ONE = {"max_new_tokens": 1}
LOGITS = logits_after(PROMPT).astype(float)


def draws(client: Client, count: int, **fields: Any) -> list[int]:
    """First tokens for seeds 0..count - 1."""
    return [client.ids(PROMPT, **ONE, seed=seed, **fields)[0] for seed in range(count)]


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 1.0, "top_k": 1, "seed": 5},
        {"temperature": 1.0, "min_p": 1.0},
        {"temperature": 0.0, "top_k": 5, "top_p": 0.5, "min_p": 0.3, "seed": 1},
        {"temperature": 0.0, "top_k": 5, "top_p": 0.5, "min_p": 0.3, "seed": 2},
        {"temperature": 1e-6, "seed": 3},
        {"num_sequences": 1},
        {"top_k": 10 * VOCAB_SIZE},
    ],
)
def test_greedy_in_many_words(client: Client, fields: dict[str, Any]) -> None:
    ids = client.ids(PROMPT, ignore_eos=True, max_new_tokens=12, **fields)
    assert ids == greedy_ids(PROMPT, 12)


def test_a_seed_repeats_on_both_rpcs(client: Client) -> None:
    options = {"temperature": 1.0, "seed": 42, "output_token_ids": True}
    made = [client.ids(PROMPT, **options) for _ in range(3)]
    made.append(list(joined(client.stream(PROMPT, **options)).outputs.token_ids))
    assert made == [made[0]] * 4


def test_zero_is_a_seed_and_none_is_chance(client: Client) -> None:
    options = {"temperature": 1.5, "ignore_eos": True}
    assert client.ids(seed=0, **options) == client.ids(seed=0, **options)
    assert len({tuple(client.ids(**options)) for _ in range(10)}) > 1
    assert len({tuple(client.ids(seed=s, **options)) for s in range(1, 21)}) > 1


def test_top_k_draws_from_the_likeliest(client: Client) -> None:
    best = np.argsort(LOGITS)[-4:]
    assert set(draws(client, 200, temperature=1.0, top_k=4)) == set(best)


def test_top_p_draws_from_the_smallest_set_with_that_mass(client: Client) -> None:
    order = np.argsort(-LOGITS)
    mass = np.cumsum(softmax(LOGITS)[order])
    nucleus = set(order[: int(np.searchsorted(mass, 0.7)) + 1])
    drawn = set(draws(client, 200, temperature=1.0, top_p=0.7))
    assert drawn <= nucleus
    assert len(drawn) > 1


def test_top_k_beyond_the_vocabulary_is_no_cutoff(client: Client) -> None:
    options = {"temperature": 1.0}
    free = draws(client, 20, **options)
    assert draws(client, 20, top_k=10 * VOCAB_SIZE, **options) == free


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_draws_follow_the_softmax(client: Client, temperature: float) -> None:
    count = 2000
    expected = softmax(LOGITS / temperature) * count
    drawn = draws(client, count, temperature=temperature)
    counts = np.bincount(drawn, minlength=VOCAB_SIZE)
    order = np.argsort(expected)  # cells of at least five draws
    cells = np.add.reduceat(expected[order], range(0, VOCAB_SIZE, 4))
    found = np.add.reduceat(counts[order], range(0, VOCAB_SIZE, 4))
    keep = cells >= 5
    statistic = float((((found - cells) ** 2) / cells)[keep].sum())
    degrees = int(keep.sum()) - 1
    # Wilson and Hilferty: the cube root is nearly normal; 3.72 is one in 10,000.
    spread = 2 / (9 * degrees)
    limit = degrees * (1 - spread + 3.72 * math.sqrt(spread)) ** 3
    assert statistic < limit


def test_several_sequences_come_with_an_index_each(client: Client) -> None:
    options = {
        "num_sequences": 3,
        "temperature": 1.0,
        "seed": 7,
        "output_token_ids": True,
    }
    messages = client.stream(PROMPT, **options)
    assert sum(message.HasField("prompt_info") for message in messages) == 1
    answers = [joined(messages, index).outputs for index in range(3)]
    for answer in answers:
        assert answer.num_tokens == answer.finish_info.num_output_tokens > 0
    again = client.stream(PROMPT, **options)
    assert [joined(again, index).outputs for index in range(3)] == answers
    ends = [m.outputs.index for m in messages if m.outputs.HasField("finish_info")]
    assert sorted(ends) == [0, 1, 2]


def test_sequence_i_is_the_single_one_of_seed_plus_i(client: Client) -> None:
    options = {"temperature": 1.0, "output_token_ids": True}
    messages = client.stream(PROMPT, num_sequences=3, seed=7, **options)
    for index in range(3):
        alone = client.ids(PROMPT, seed=7 + index, **options)
        assert list(joined(messages, index).outputs.token_ids) == alone


def test_several_sequences_need_a_stream_and_chance(client: Client) -> None:
    drawn = {"temperature": 1.0, "num_sequences": 2}
    assert client.failure(**drawn).code.name == "INVALID_ARGUMENT"
    failure = client.stream_failure(temperature=0.0, num_sequences=2)
    assert failure.code.name == "INVALID_ARGUMENT"
    assert client.ids(num_sequences=0) == client.ids(num_sequences=1) == client.ids()


def test_only_allowed_tokens_come(client: Client) -> None:
    options = {"ignore_eos": True, "max_new_tokens": 6}
    output = client.output(allowed_token_ids=[A], **options)
    assert list(output.token_ids) == [A] * 6
    assert output.finish_info.finish_reason == 1
    drawn = client.ids(allowed_token_ids=[A, B], temperature=1.5, seed=1, **options)
    assert set(drawn) <= {A, B}


def test_a_bias_forces_and_forbids(client: Client) -> None:
    bias = {"logit_bias": {A: 100.0}}
    assert client.ids(PROMPT, **ONE, **bias) == [A]
    assert set(draws(client, 20, temperature=2.0, **bias)) == {A}
    best = greedy_ids(PROMPT, 1)[0]
    assert best not in client.ids(PROMPT, logit_bias={best: -100.0})


def test_presence_and_frequency_do_not_look_at_the_prompt(client: Client) -> None:
    best = greedy_ids(PROMPT, 1)[0]
    prompt = [best] * 9 + PROMPT[-2:]
    fields = {"presence_penalty": 2.0, "frequency_penalty": 2.0}
    assert client.ids(prompt, **ONE, **fields) == [best]


def test_penalties_replayed(client: Client) -> None:
    output = client.output(
        PROMPT,
        allowed_token_ids=[A, B],
        logit_bias={A: 60.0, B: 60.0},
        presence_penalty=1.3,
        frequency_penalty=0.7,
        output_logprobs=True,
        output_candidates={"ids": [A, B]},
        max_new_tokens=12,
    )
    ids, seen = list(output.token_ids), {A: 0, B: 0}
    assert len(ids) == 12
    for step, token in enumerate(ids):
        raw = {t.id: t.logprob for t in output.candidate_tokens[step].tokens}
        raw[token] = output.logprobs[step]
        scores = {t: raw[t] - 1.3 * (seen[t] > 0) - 0.7 * seen[t] for t in (A, B)}
        assert token == max(scores, key=scores.__getitem__)
        seen[token] += 1


def test_the_repetition_penalty_looks_at_the_prompt(client: Client) -> None:
    fields = {"allowed_token_ids": [A, B], "logit_bias": {A: 50.0, B: 49.0}}
    prompt = [*PROMPT, A]
    assert client.ids(prompt, **ONE, **fields) == [A]
    assert client.ids(prompt, **ONE, **fields, repetition_penalty=2.0) == [B]
