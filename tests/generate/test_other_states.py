"""Several answers and prompt scores over states that cannot be cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROMPT = [1, *range(10, 24)]
FREE = {"max_new_tokens": 8, "ignore_eos": True}


@pytest.fixture
def hybrid(
    open_engine: Callable[..., Any], make_hybrid_bundle: Callable[..., Path]
) -> Any:
    return open_engine(make_hybrid_bundle())


def test_answer_i_is_the_single_one_of_seed_plus_i(hybrid: Any) -> None:
    options = {"temperature": 2.0, **FREE}
    several = hybrid.generate(PROMPT, num_sequences=3, seed=5, **options).outputs
    for index, output in enumerate(several):
        single = hybrid.generate(PROMPT, seed=5 + index, **options)
        assert single.outputs[0].token_ids == output.token_ids


def test_an_answer_fed_back_has_the_same_scores(hybrid: Any) -> None:
    output = hybrid.generate(PROMPT, output_logprobs=True, **FREE).outputs[0]
    again = hybrid.generate([*PROMPT, *output.token_ids], prompt_logprobs=True)
    scores = again.prompt_info.logprobs[len(PROMPT) :]
    assert scores == pytest.approx(output.logprobs, abs=1e-4)


def test_a_session_goes_on_behind_several_answers(hybrid: Any) -> None:
    session = hybrid.create_session()
    session.generate(PROMPT, num_sequences=2, temperature=1.0, **FREE)
    assert session.token_ids == tuple(PROMPT)
    after = session.generate([30], **FREE).outputs[0].token_ids
    assert after == hybrid.generate([*PROMPT, 30], **FREE).outputs[0].token_ids
