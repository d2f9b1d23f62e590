"""Log-probabilities, ranks and candidates, against the model's own distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fixtures.conformance import BOS, VOCAB_SIZE, id_of, logits_after
from tests.serve.client import Client, RunningServer, joined

A, B = id_of("a"), id_of("b")
PROMPT = [BOS, id_of("u"), id_of("v"), id_of("w")]
ALL = {"output_logprobs": True, "output_candidates": {"all": True}}


def logprobs_after(ids: list[int]) -> Any:
    logits = logits_after(ids).astype(float)
    return logits - np.log(np.exp(logits).sum())


def rank(logprobs: Any, token: int) -> int:
    return 1 + int((logprobs > logprobs[token]).sum())


def test_greedy_tokens_have_rank_1_in_every_message(client: Client) -> None:
    for message in client.stream(PROMPT, output_logprobs=True)[1:]:
        output = message.outputs
        assert len(output.logprobs) == len(output.ranks) == output.num_tokens
        assert set(output.ranks) <= {1}
        assert all(value <= 0 for value in output.logprobs)
        assert not any(info.tokens for info in output.candidate_tokens)


def test_the_best_are_in_order_with_true_ranks(client: Client) -> None:
    output = client.output(
        PROMPT, max_new_tokens=1, output_logprobs=True, output_candidates={"top_n": 5}
    )
    expected = logprobs_after(PROMPT)
    tokens = output.candidate_tokens[0].tokens
    values = [token.logprob for token in tokens]
    assert values == sorted(values, reverse=True)
    reported = {token.id for token in tokens} | set(output.token_ids)
    assert set(np.argsort(-expected)[:5]) <= reported
    for token in tokens:
        assert token.logprob == pytest.approx(expected[token.id], abs=1e-5)
        assert token.rank == rank(expected, token.id)


def test_all_candidates_are_the_whole_distribution(client: Client) -> None:
    output = client.output(PROMPT, max_new_tokens=2, **ALL)
    for step in range(2):
        tokens = output.candidate_tokens[step].tokens
        values = {token.id: token.logprob for token in tokens}
        values[output.token_ids[step]] = output.logprobs[step]
        assert set(values) == set(range(VOCAB_SIZE))
        assert np.log(np.exp(list(values.values())).sum()) == pytest.approx(0, abs=1e-4)


def test_chosen_ids_have_the_values_of_the_whole(client: Client) -> None:
    drawn = {"temperature": 1.0, "seed": 3, "max_new_tokens": 1}
    output = client.output(
        PROMPT, output_logprobs=True, output_candidates={"ids": [A, B]}, **drawn
    )
    expected = logprobs_after(PROMPT)
    values = {t.id: (t.logprob, t.rank) for t in output.candidate_tokens[0].tokens}
    values[output.token_ids[0]] = output.logprobs[0], output.ranks[0]
    for token in (A, B, output.token_ids[0]):
        assert values[token][0] == pytest.approx(expected[token], abs=1e-5)
        assert values[token][1] == rank(expected, token)


def test_a_rank_counts_the_likelier_tokens(client: Client) -> None:
    output = client.output(PROMPT, temperature=2.0, seed=11, **ALL)
    for step in range(output.num_tokens):
        others = [t.logprob for t in output.candidate_tokens[step].tokens]
        likelier = sum(value > output.logprobs[step] for value in others)
        assert output.ranks[step] == 1 + likelier


def test_scores_are_those_before_bias_and_temperature(client: Client) -> None:
    output = client.output(
        PROMPT,
        max_new_tokens=1,
        logit_bias={A: 100.0},
        temperature=0.5,
        output_logprobs=True,
    )
    assert list(output.token_ids) == [A]
    assert output.logprobs[0] == pytest.approx(logprobs_after(PROMPT)[A], abs=1e-5)
    assert output.ranks[0] == rank(logprobs_after(PROMPT), A)


def test_each_token_of_the_prompt_is_scored(client: Client) -> None:
    info = client.generate(
        PROMPT, prompt_logprobs=True, prompt_candidates={"top_n": 2}
    ).prompt_info
    lists = info.logprobs, info.ranks, info.candidate_tokens
    assert {len(values) for values in lists} == {len(PROMPT)}
    assert (info.logprobs[0], info.ranks[0]) == (0.0, 0)
    assert not info.candidate_tokens[0].tokens
    for place in range(1, len(PROMPT)):
        expected = logprobs_after(PROMPT[:place])
        token = PROMPT[place]
        assert info.logprobs[place] == pytest.approx(expected[token], abs=1e-5)
        assert info.ranks[place] == rank(expected, token)
        assert len(info.candidate_tokens[place].tokens) == 2


def test_a_run_scored_again_as_a_prompt(client: Client) -> None:
    drawn = {"temperature": 1.0, "seed": 5, "output_logprobs": True}
    output = client.output(PROMPT, **drawn)
    whole = [*PROMPT, *output.token_ids]
    info = client.generate(whole, prompt_logprobs=True).prompt_info
    count = len(output.token_ids)
    assert list(info.logprobs)[-count:] == pytest.approx(list(output.logprobs))
    assert list(info.ranks)[-count:] == list(output.ranks)


def test_candidates_without_logprobs_are_not_sent(client: Client) -> None:
    output = client.output(PROMPT, output_candidates={"top_n": 3})
    assert not output.logprobs and not output.ranks and not output.candidate_tokens


@pytest.mark.parametrize("select", [{"all": False}, {"ids": []}, {"top_n": 0}, {}])
def test_no_extras_is_a_choice_too(client: Client, select: dict[str, Any]) -> None:
    output = client.output(PROMPT, output_logprobs=True, output_candidates=select)
    assert len(output.logprobs) == output.num_tokens
    assert not any(info.tokens for info in output.candidate_tokens)


def test_a_server_can_limit_candidates(start: Callable[..., RunningServer]) -> None:
    from litert_lm.config import GenerateLimits

    client = start(generate_limits=GenerateLimits(max_logprobs=2)).client
    for select in ({"top_n": 3}, {"all": True}):
        for name in ("output", "prompt"):
            fields = {f"{name}_logprobs": True, f"{name}_candidates": select}
            assert client.code(PROMPT, **fields) == "INVALID_ARGUMENT"
    output = client.output(PROMPT, output_logprobs=True, output_candidates={"top_n": 2})
    assert len(output.candidate_tokens[0].tokens) == 2


def test_scores_come_with_each_of_several_sequences(client: Client) -> None:
    messages = client.stream(
        PROMPT, num_sequences=2, temperature=1.0, seed=1, output_logprobs=True
    )
    for index in range(2):
        output = joined(messages, index).outputs
        assert len(output.logprobs) == len(output.ranks) == output.num_tokens
