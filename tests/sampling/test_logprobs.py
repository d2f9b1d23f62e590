"""Log-probabilities and ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from litert_lm.errors import ExecutionError, InvalidArgumentError
from litert_lm.sampling import Logprobs

LOGITS = hnp.arrays(
    np.float32,
    st.integers(1, 600),
    elements=st.sampled_from([-np.inf, -1e30, -3.0, -0.5, 0.0, 0.25, 2.0, 17.0]),
).map(lambda logits: np.append(logits, np.float32(1.0)))


def log_softmax(logits):
    logits = logits.astype(np.float64)
    peak = logits.max()
    return logits - peak - np.log(np.exp(logits - peak).sum())


def ranks(logits):
    return [int((logits >= own).sum()) for own in logits]


@settings(max_examples=200, deadline=None)
@given(LOGITS)
def test_every_token_has_its_log_softmax_and_rank(logits):
    tokens = Logprobs().of(logits, range(logits.size))
    assert np.allclose(tokens.logprobs, log_softmax(logits), atol=1e-5)
    assert tokens.ranks.tolist() == ranks(logits)


@settings(max_examples=200, deadline=None)
@given(LOGITS, st.integers(1, 40))
def test_the_top_tokens_are_the_first_of_a_stable_sort(logits, num_tokens):
    tokens = Logprobs().top(logits, num_tokens)
    best = np.argsort(-logits, kind="stable")[:num_tokens]
    assert tokens.ids.tolist() == best.tolist()
    assert tokens.ranks.tolist() == [ranks(logits)[i] for i in best]
    assert np.allclose(tokens.logprobs, log_softmax(logits)[best], atol=1e-5)


def test_all_tokens_together_have_probability_one():
    logits = np.linspace(-20, 20, 49152, dtype=np.float32)
    tokens = Logprobs().top(logits, logits.size)
    assert abs(np.logaddexp.reduce(tokens.logprobs)) < 1e-6
    assert tokens.ranks.tolist() == list(range(1, logits.size + 1))


def test_a_single_token_agrees_with_the_list():
    logits = np.array([0.5, 2, 2, -1], np.float32)
    logprobs = Logprobs()
    listed = logprobs.of(logits, [2])
    assert logprobs.token_logprob(logits, 2) == listed.logprobs[0]
    assert logprobs.token_rank(logits, 2) == listed.ranks[0] == 2


def test_a_known_total_is_not_computed_again(monkeypatch):
    logits = np.array([0.5, 2, 2, -1], np.float32)
    logprobs = Logprobs()
    total = logprobs.logsumexp(logits)
    monkeypatch.setattr(Logprobs, "logsumexp", None)
    assert logprobs.token_logprob(logits, 1, total=total) == pytest.approx(2 - total)
    assert logprobs.of(logits, [1], total=total).ids.tolist() == [1]
    assert logprobs.top(logits, 1, total=total).ids.tolist() == [1]


def test_large_vocabularies_sum_precisely():
    logits = np.zeros(262144, np.float32)
    assert Logprobs().token_logprob(logits, 0) == pytest.approx(-np.log(262144))


def test_no_tokens_asked_for_is_an_empty_answer():
    assert Logprobs().top(np.zeros(4, np.float32), 0).ids.size == 0


@pytest.mark.parametrize("bad", [-1, 4])
def test_an_id_beyond_the_vocabulary_is_named(bad):
    with pytest.raises(InvalidArgumentError, match=f"Token id {bad} "):
        Logprobs().of(np.zeros(4, np.float32), [0, bad])


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_logits_that_are_no_numbers_are_an_execution_error(bad):
    with pytest.raises(ExecutionError, match="logits"):
        Logprobs().top(np.full(4, bad, np.float32), 2)
