"""The executor over a toy llama, against one forward pass in numpy."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litert_lm.errors import CancelledError, ContextFullError
from tests.executor.speech import greedy
from tests.fixtures.llama import CONTEXT, llama_bundle, reference_logits
from tests.fixtures.llama_tokens import BOS

TOLERANCE = 1e-5


def some_ids(count: int, seed: int = 0) -> list[int]:
    random = np.random.default_rng(seed)
    return [BOS, *random.integers(3, 64, count - 1).tolist()]


def error_after(executor, cache, token_ids, next_id):
    """Largest difference from the reference of the logits after `next_id`."""
    expected = reference_logits([*token_ids, next_id])[-1]
    return np.abs(executor.decode(cache, next_id) - expected).max()


@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cuts=st.lists(st.integers(1, 99), max_size=5, unique=True))
def test_any_split_of_a_prompt_gives_the_same_logits(
    open_model, toy_llama_bundle, cuts
):
    executor = open_model(toy_llama_bundle)
    ids, cache = some_ids(100), executor.new_cache()
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 100], strict=True):
        executor.prefill(cache, ids[begin:end])
    assert error_after(executor, cache, ids, 5) < TOLERANCE


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 31, 32, 33, 40, 120, 127])
def test_prompts_of_every_kind_of_length(open_model, toy_llama_bundle, count):
    executor = open_model(toy_llama_bundle)
    ids, cache = some_ids(count, seed=count), executor.new_cache()
    executor.prefill(cache, ids)
    assert cache.num_tokens == count
    assert error_after(executor, cache, ids, 5) < TOLERANCE


def test_every_step_of_a_decode(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    ids, cache = some_ids(CONTEXT), executor.new_cache()
    expected = reference_logits(ids)
    for position, token_id in enumerate(ids):
        logits = executor.decode(cache, token_id)
        assert np.abs(logits - expected[position]).max() < TOLERANCE


def test_interleaved_sequences_do_not_touch_each_other(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    prompts = [some_ids(20, seed) for seed in (1, 2)]
    caches = [executor.new_cache() for _ in prompts]
    for begin in range(0, 20, 5):
        for cache, ids in zip(caches, prompts, strict=True):
            executor.prefill(cache, ids[begin : begin + 5])
    for cache, ids in zip(caches, prompts, strict=True):
        assert error_after(executor, cache, ids, 9) < TOLERANCE


def test_logits_of_one_sequence_outlive_steps_of_another(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    first, second = executor.new_cache(), executor.new_cache()
    logits = executor.decode(first, 5)
    kept = logits.copy()
    executor.decode(second, 6)
    assert np.array_equal(logits, kept)


def test_two_threads_share_an_executor(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    said = {}

    def speak(seed):
        ids = some_ids(30, seed)
        said[seed] = greedy(executor, executor.new_cache(), ids, 40)

    threads = [threading.Thread(target=speak, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = dict(said)
    for seed in (1, 2):
        speak(seed)
    assert said == together


def test_going_back_to_an_earlier_token(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    ids, cache = some_ids(50), executor.new_cache()
    executor.prefill(cache, ids)
    cache.rewind(20)
    executor.prefill(cache, some_ids(30, seed=4))
    expected = ids[:20] + some_ids(30, seed=4)
    assert error_after(executor, cache, expected, 5) < TOLERANCE


def test_a_copied_cache_goes_its_own_way(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    ids, cache, copy = some_ids(40), executor.new_cache(), executor.new_cache()
    executor.prefill(cache, ids)
    copy.copy_from(cache)
    executor.decode(copy, 7)
    assert error_after(executor, copy, [*ids, 7], 8) < TOLERANCE
    assert error_after(executor, cache, ids, 9) < TOLERANCE


def test_full_context_is_an_error_that_says_so(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    cache = executor.new_cache()
    executor.prefill(cache, some_ids(CONTEXT))
    with pytest.raises(ContextFullError, match=f"{CONTEXT} tokens.*1 too many"):
        executor.decode(cache, 5)


def test_too_long_a_prompt_leaves_the_cache_as_it_was(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    ids, cache = some_ids(10), executor.new_cache()
    executor.prefill(cache, ids)
    with pytest.raises(ContextFullError, match="2 too many"):
        executor.prefill(cache, some_ids(CONTEXT - 8))
    assert error_after(executor, cache, ids, 5) < TOLERANCE


def test_a_smaller_limit_than_the_models(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle, max_num_tokens=20)
    cache = executor.new_cache()
    executor.prefill(cache, some_ids(20))
    with pytest.raises(ContextFullError, match="holds 20 tokens"):
        executor.decode(cache, 5)


def test_growing_a_cache_changes_no_logit(open_model, tmp_path):
    path = llama_bundle(context=600).save(tmp_path / "long.litertlm")
    resizing, fixed = open_model(path), open_model(path, is_resizable=False)
    caches = resizing.new_cache(), fixed.new_cache()
    lengths = set()
    for begin in range(0, 590, 59):
        ids = some_ids(58, seed=begin)
        resizing.prefill(caches[0], ids)
        fixed.prefill(caches[1], ids)
        last = resizing.decode(caches[0], 3), fixed.decode(caches[1], 3)
        assert np.array_equal(*last)
        lengths.add(caches[0].length)
        assert caches[1].length == 600
    assert min(lengths) < max(lengths) == 600


def test_a_cancelled_prefill_can_be_gone_on_with(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    ids, cache, asked = some_ids(90), executor.new_cache(), []
    executor.prefill(cache, ids, is_cancelled=lambda: bool(asked.append(1)))
    cache.clear()
    answers = iter([False] * (len(asked) // 2))
    with pytest.raises(CancelledError):
        executor.prefill(cache, ids, is_cancelled=lambda: next(answers, True))
    assert 0 < cache.num_tokens < 90
    executor.prefill(cache, ids[cache.num_tokens :])
    assert error_after(executor, cache, ids, 5) < TOLERANCE


def test_progress_counts_up_to_the_whole_prompt(open_model, toy_llama_bundle):
    executor = open_model(toy_llama_bundle)
    seen = []
    executor.prefill(
        executor.new_cache(), some_ids(70), progress=lambda *at: seen.append(at)
    )
    assert seen == sorted(seen)
    assert seen[-1] == (70, 70)


def test_models_of_one_shape_do_not_share_packed_weights(open_model, tmp_path):
    for seed in (11, 12):
        path = llama_bundle(seed=seed).save(tmp_path / f"{seed}.litertlm")
        executor = open_model(path)
        expected = reference_logits([BOS], seed)[-1]
        logits = executor.decode(executor.new_cache(), BOS)
        assert np.abs(logits - expected).max() < TOLERANCE


def test_a_file_that_was_replaced_is_read_anew(open_model, tmp_path: Path):
    path = tmp_path / "model.litertlm"
    for seed in (13, 14):
        executor = open_model(llama_bundle(seed=seed).save(path))
        expected = reference_logits([BOS], seed)[-1]
        logits = executor.decode(executor.new_cache(), BOS)
        assert np.abs(logits - expected).max() < TOLERANCE
