"""The conformance model is what the table says of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fixtures.conformance import VOCAB_SIZE, greedy_ids, logits_after


def test_greedy_tokens_follow_from_the_last_two_tokens(engine: Any) -> None:
    options = {"max_new_tokens": 40, "ignore_eos": True}
    response = engine.create_session().generate("hello there", **options)
    prompt = response.prompt_info.token_ids
    assert list(response.outputs[0].token_ids) == greedy_ids(prompt, 40)


def test_logits_are_bounded_and_never_tie() -> None:
    for ids in ([1], [1, 5], [9, 9], [63, 0]):
        logits = logits_after(ids)
        assert np.unique(logits).size == VOCAB_SIZE
        assert np.abs(logits).max() <= 3
