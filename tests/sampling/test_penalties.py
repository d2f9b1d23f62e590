"""Penalties against their formulas, token by token."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from litert_lm.sampling.penalties import Penalties

VOCAB = 12
IDS = st.lists(st.integers(0, VOCAB - 1), max_size=200)


def expected(logits, prompt, output, repetition, frequency, presence):
    """Each logit by vLLM's formulas."""
    counts, made = Counter(output), []
    for token_id, logit in enumerate(logits.astype(np.float64)):
        if token_id in counts or token_id in prompt:
            logit = logit / repetition if logit > 0 else logit * repetition
        logit -= frequency * counts[token_id]
        made.append(logit - presence * (token_id in counts))
    return np.array(made)


@settings(max_examples=60, deadline=None)
@given(
    prompt=IDS,
    output=IDS,
    repetition=st.sampled_from([1.0, 0.5, 1.3, 4.0]),
    frequency=st.sampled_from([0.0, 0.7, -2.0]),
    presence=st.sampled_from([0.0, 1.3, -1.0]),
    num_back=st.integers(0, 200),
)
def test_formulas_hold_also_after_going_back(
    prompt, output, repetition, frequency, presence, num_back
):
    logits = np.linspace(-3, 3, VOCAB, dtype=np.float32)
    values = {"repetition": repetition, "frequency": frequency, "presence": presence}
    penalties = Penalties(prompt, **values)
    for token_id in output:
        penalties.accept(token_id)
    num_back = min(num_back, len(output))
    penalties.rollback(num_back)
    kept = output[: len(output) - num_back]
    made = penalties(kept, logits.copy())
    np.testing.assert_allclose(
        made, expected(logits, prompt, kept, **values), rtol=1e-5, atol=1e-5
    )


def test_masked_tokens_stay_masked_and_nothing_overflows():
    logits = np.array([-np.inf, 3e38, -3e38, 0.0], np.float32)
    penalties = Penalties([0, 1, 2, 3], repetition=1e-300, presence=-2.0)
    penalties.accept(0)
    made = penalties([0], logits)
    assert made[0] == -np.inf
    assert np.isfinite(made[1:]).all()


def test_tokens_that_were_not_there_are_left_alone():
    logits = np.ones(8, np.float32)
    penalties = Penalties([1], frequency=1.0)
    penalties.accept(2)
    assert list(np.flatnonzero(penalties([2], logits) != 1)) == [2]
