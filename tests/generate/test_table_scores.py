"""Rows of the conformance table about log-probabilities, ranks and candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from litert_lm.config import GenerateLimits
from litert_lm.errors import InvalidArgumentError
from litert_lm.generate.request import GenerateRequest
from litert_lm.generate.request_checks import check_candidates_fit
from tests.fixtures.conformance import VOCAB_SIZE
from tests.generate.rows import A, B, logprobs_after

PROMPT = [1, 5, 6, 9]
ALL = {"output_logprobs": True, "output_candidates": "all"}


def rank_of(logprobs: Any, token_id: int) -> int:
    return int((logprobs >= logprobs[token_id]).sum())


def test_v37_greedy_tokens_have_rank_one(engine: Any) -> None:
    for chunk in engine.generate_stream(PROMPT, output_logprobs=True):
        for output in chunk.outputs:
            assert len(output.logprobs) == len(output.ranks) == output.num_tokens == 1
            assert output.logprobs[0] <= 0
            assert output.ranks == (1,)
            assert output.candidate_tokens == ((),)


def test_v38_the_best_others_in_order(engine: Any) -> None:
    output = engine.generate(
        PROMPT, temperature=2.0, seed=3, output_logprobs=True, output_candidates=5
    ).outputs[0]
    known = list(PROMPT)
    for token_id, found in zip(output.token_ids, output.candidate_tokens, strict=True):
        logprobs = logprobs_after(known)
        best = np.argsort(-logprobs)
        others = [each for each in best.tolist() if each != token_id][:5]
        assert [each.id for each in found] == others
        assert [each.rank for each in found] == [rank_of(logprobs, i) for i in others]
        assert [each.logprob for each in found] == pytest.approx(logprobs[others])
        known.append(token_id)


def test_v39_all_candidates_are_the_whole_distribution(engine: Any) -> None:
    output = engine.generate(PROMPT, max_new_tokens=3, **ALL).outputs[0]
    for token_id, logprob, found in zip(
        output.token_ids, output.logprobs, output.candidate_tokens, strict=True
    ):
        ids = sorted([token_id, *(each.id for each in found)])
        assert ids == list(range(VOCAB_SIZE))
        mass = np.exp([logprob, *(each.logprob for each in found)]).sum()
        assert np.log(mass) == pytest.approx(0, abs=1e-4)


def test_v40_chosen_ids(engine: Any) -> None:
    options = {"temperature": 1.0, "seed": 4, "max_new_tokens": 4}
    output = engine.generate(
        PROMPT, output_logprobs=True, output_candidates=[A, B], **options
    ).outputs[0]
    known = list(PROMPT)
    for token_id, found in zip(output.token_ids, output.candidate_tokens, strict=True):
        logprobs = logprobs_after(known)
        assert [each.id for each in found] == [i for i in (A, B) if i != token_id]
        for each in found:
            assert each.logprob == pytest.approx(logprobs[each.id], abs=1e-5)
            assert each.rank == rank_of(logprobs, each.id)
        known.append(token_id)


def test_v41_scores_are_the_models_own(engine: Any) -> None:
    changed = {
        "temperature": 2.0,
        "seed": 8,
        "logit_bias": {A: 5.0},
        "repetition_penalty": 1.5,
        "top_k": 30,
    }
    output = engine.generate(PROMPT, output_logprobs=True, **changed).outputs[0]
    known = list(PROMPT)
    for token_id, logprob, rank in zip(
        output.token_ids, output.logprobs, output.ranks, strict=True
    ):
        logprobs = logprobs_after(known)
        assert logprob == pytest.approx(logprobs[token_id], abs=1e-5)
        assert rank == rank_of(logprobs, token_id)
        known.append(token_id)


@pytest.mark.parametrize("signatures", [{}, {"decode": 1, "prefill_8": 8}], ids=len)
def test_v42_prompt_logprobs(
    open_engine: Callable[..., Any],
    make_conformance_bundle: Callable[..., Any],
    signatures: dict[str, int],
) -> None:
    engine = open_engine(make_conformance_bundle(**signatures))
    prompt = [1, *range(40, 4, -1)]
    info = engine.generate(
        prompt, prompt_logprobs=True, prompt_candidates=2
    ).prompt_info
    assert (info.logprobs[0], info.ranks[0], info.candidate_tokens[0]) == (0.0, 0, ())
    assert len(info.logprobs) == len(info.ranks) == len(info.candidate_tokens) == 37
    for at in range(1, len(prompt)):
        logprobs = logprobs_after(prompt[:at])
        assert info.logprobs[at] == pytest.approx(logprobs[prompt[at]], abs=1e-5)
        assert info.ranks[at] == rank_of(logprobs, prompt[at])
        assert len(info.candidate_tokens[at]) == 2


def test_an_answer_follows_a_scored_prompt(engine: Any) -> None:
    plain = engine.generate(PROMPT)
    scored = engine.generate(PROMPT, prompt_logprobs=True)
    assert scored.outputs == plain.outputs


def test_feeding_an_answer_back_scores_it_the_same(engine: Any) -> None:
    output = engine.generate(PROMPT, output_logprobs=True, ignore_eos=True).outputs[0]
    again = engine.generate([*PROMPT, *output.token_ids], prompt_logprobs=True)
    assert again.prompt_info.logprobs[len(PROMPT) :] == pytest.approx(output.logprobs)
    assert again.prompt_info.ranks[len(PROMPT) :] == output.ranks


def test_a_later_prompt_of_a_session_is_scored_from_its_first_token(
    engine: Any,
) -> None:
    session = engine.create_session()
    session.generate([1, 5], max_new_tokens=2, ignore_eos=True)
    before = session.token_ids
    info = session.generate([7, 8], prompt_logprobs=True).prompt_info
    assert info.logprobs[0] == pytest.approx(logprobs_after(before)[7], abs=1e-5)


def test_prompt_scores_tell_their_progress(engine: Any) -> None:
    session, seen = engine.create_session(), []
    session.prefill_progress = lambda done, total: seen.append((done, total))
    session.generate([1, *range(5, 30)], prompt_logprobs=True)
    assert seen[-1] == (25, 25)
    assert len(seen) > 1


def test_cancelled_prompt_scores_leave_the_session_as_it_was(engine: Any) -> None:
    session = engine.create_session()
    session.generate([1, 5], max_new_tokens=2, ignore_eos=True)
    before = session.token_ids
    session.prefill_progress = lambda done, total: session.cancel_process()
    answer = session.generate([*range(5, 30)], prompt_logprobs=True)
    assert answer.finish_reason.name == "ABORTED"
    assert session.token_ids == before
    session.prefill_progress = None
    assert session.generate([9]).outputs[0].num_tokens


def test_v43_candidates_without_the_flag_are_ignored(engine: Any) -> None:
    output = engine.generate(PROMPT, output_candidates=3).outputs[0]
    assert (output.logprobs, output.ranks, output.candidate_tokens) == ((), (), ())


@pytest.mark.parametrize(
    ("candidates", "is_allowed"),
    [(2, True), (3, False), ("all", False), ([A] * 128, True), ([A] * 129, False)],
    ids=["two", "three", "all", "ids", "more ids"],
)
def test_v43_a_cap_on_candidates(
    open_engine: Callable[..., Any],
    make_conformance_bundle: Callable[..., Any],
    candidates: Any,
    is_allowed: bool,
) -> None:
    limits = GenerateLimits(max_logprobs=2)
    engine = open_engine(make_conformance_bundle(), generate_limits=limits)
    for name in ("output", "prompt"):
        options = {f"{name}_logprobs": True, f"{name}_candidates": candidates}
        if is_allowed:
            engine.generate(PROMPT, max_new_tokens=1, **options)
            continue
        with pytest.raises(InvalidArgumentError, match=rf"{name}_.*max_logprobs"):
            engine.generate_stream(PROMPT, **options)


def test_raw_scores_are_those_behind_the_grammar(engine: Any) -> None:
    pytest.importorskip("llguidance")
    output = engine.generate(PROMPT, choice=["a", "b"], **ALL).outputs[0]
    possible = [
        each.id for each in output.candidate_tokens[0] if each.logprob > -np.inf
    ]
    assert {*possible, output.token_ids[0]} == {A, B}


def test_candidates_that_no_memory_holds(engine: Any) -> None:
    wanted = GenerateRequest(
        prompt=[1], output_logprobs=True, output_candidates="all", num_sequences=2
    )
    check_candidates_fit(wanted, 1, 255, 1 << 18)
    with pytest.raises(InvalidArgumentError, match=r"output_.* up to 514"):
        check_candidates_fit(wanted, 1, 257, 1 << 18)
