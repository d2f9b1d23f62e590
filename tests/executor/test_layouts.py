"""Every layout that exporters write, against one forward pass in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litert_lm.errors import ContextFullError
from tests.executor.speech import greedy
from tests.fixtures.hybrid import HybridOptions, reference_ids, reference_logits
from tests.fixtures.hybrid_bundle import LAYOUTS
from tests.fixtures.llama_tokens import BOS

TOLERANCE = 1e-4
# What makes one kind of call so cheap that prompts are made of little else.
PREFERENCES = {
    "decode steps": {},
    "short chunks": {"prefill_4": 1e-6},
    "long chunks": {"prefill_8": 1e-6, "prefill_16": 1e-6},
}

pytestmark = pytest.mark.parametrize("layout", LAYOUTS)


def some_ids(count: int, seed: int = 0) -> list[int]:
    random = np.random.default_rng(seed)
    return [BOS, *random.integers(3, 64, count - 1).tolist()]


def error_after(layout, executor, cache, token_ids):
    """Largest difference from the reference of the logits after one more token."""
    expected = reference_logits(HybridOptions(**LAYOUTS[layout]), [*token_ids, 9])[-1]
    return np.abs(executor.decode(cache, 9) - expected).max()


@pytest.fixture
def opened(layout, open_model, make_hybrid_bundle):
    """An executor over the layout's model."""
    return open_model(make_hybrid_bundle(**LAYOUTS[layout]))


@pytest.mark.parametrize("preferred", PREFERENCES)
@pytest.mark.parametrize("is_resizable", [True, False])
def test_greedy_text_after_prompts_of_many_lengths(
    layout, open_model, make_hybrid_bundle, is_resizable, preferred
):
    path = make_hybrid_bundle(**LAYOUTS[layout])
    prices = {"decode": 1.0, "prefill_4": 9.0, "prefill_8": 9.0, "prefill_16": 99.0}
    costs = {**prices, **PREFERENCES[preferred]}
    executor = open_model(path, is_resizable=is_resizable, costs=costs)
    for count in (1, 6, 13, 50):
        ids, cache = some_ids(count, seed=count), executor.new_cache()
        wanted = reference_ids(HybridOptions(**LAYOUTS[layout]), ids, 16)
        assert greedy(executor, cache, ids, 16) == wanted


@settings(
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lengths=st.lists(st.sampled_from([1, 1, 4, 8, 16]), min_size=4, max_size=12))
def test_any_order_of_calls_gives_the_same_logits(layout, opened, lengths):
    ids, cache = some_ids(120), opened.new_cache()
    for length in lengths:
        if length in opened.lengths:
            part = ids[cache.num_tokens : cache.num_tokens + length]
            opened.run_chunk(cache, length, part)
    assert error_after(layout, opened, cache, ids[: cache.num_tokens]) < TOLERANCE


def test_prompts_are_read_in_chunks(layout, open_model, make_hybrid_bundle):
    costs = {"decode": 1.0, "prefill_4": 1e-3, "prefill_8": 1e-3}
    executor = open_model(make_hybrid_bundle(**LAYOUTS[layout]), costs=costs)
    seen = []
    executor.prefill(
        executor.new_cache(), some_ids(41), progress=lambda *at: seen.append(at)
    )
    assert len(seen) <= 11


def test_later_turns(layout, opened):
    ids, cache = some_ids(60), opened.new_cache()
    for begin, end in ((0, 5), (5, 6), (6, 19), (19, 52), (52, 60)):
        opened.prefill(cache, ids[begin:end])
    assert error_after(layout, opened, cache, ids) < TOLERANCE


def test_interleaved_sequences_do_not_touch_each_other(layout, opened):
    prompts = [some_ids(30, seed) for seed in (1, 2, 3)]
    caches = [opened.new_cache() for _ in prompts]
    for begin, end in ((0, 7), (7, 8), (8, 25), (25, 29)):
        for cache, ids in zip(caches, prompts, strict=True):
            opened.prefill(cache, ids[begin:end])
    for cache, ids in zip(caches, prompts, strict=True):
        opened.decode(cache, ids[29])
    for cache, ids in zip(caches, prompts, strict=True):
        assert error_after(layout, opened, cache, ids) < TOLERANCE


def test_a_copied_cache_goes_its_own_way(layout, opened):
    ids, cache, copy = some_ids(21), opened.new_cache(), opened.new_cache()
    opened.prefill(cache, ids)
    copy.copy_from(cache)
    opened.prefill(copy, [7, 8, 9, 10, 11])
    assert error_after(layout, opened, copy, [*ids, 7, 8, 9, 10, 11]) < TOLERANCE
    assert error_after(layout, opened, cache, ids) < TOLERANCE


def test_a_cleared_cache_is_like_a_new_one(layout, opened):
    ids, cache = some_ids(14), opened.new_cache()
    opened.prefill(cache, some_ids(33, seed=4))
    cache.clear()
    opened.prefill(cache, ids)
    assert error_after(layout, opened, cache, ids) < TOLERANCE


def test_the_whole_context(layout, open_model, make_hybrid_bundle):
    path = make_hybrid_bundle(**LAYOUTS[layout])
    executor = open_model(path, max_num_tokens=160)
    ids, cache = some_ids(159), executor.new_cache()
    executor.prefill(cache, ids[:150])
    for token_id in ids[150:]:
        executor.decode(cache, token_id)
    assert error_after(layout, executor, cache, ids) < TOLERANCE
    with pytest.raises(ContextFullError):
        executor.decode(cache, 5)
