"""Plans of a prefill: all is stored once, inside the cache, at the least cost."""

from __future__ import annotations

import math
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from litert_lm.executor.plan import plan_prefill

counts, starts, spares = st.integers(0, 300), st.integers(0, 50), st.integers(0, 20)
prices = st.floats(0.1, 10)
costs = st.dictionaries(st.sampled_from([4, 8, 32]), prices, max_size=3).flatmap(
    lambda others: prices.map(lambda decode: {1: decode, **others})
)


def cost_of(plan, costs):
    return sum(costs[chunk.length] for chunk in plan)


def least_cost(num_tokens, start, limit, costs, can_pad):
    """By trying everything."""

    @cache
    def least(left):
        if not left:
            return 0.0
        at = start + num_tokens - left
        fitting = [n for n in costs if at + n <= limit and (can_pad or n <= left)]
        return min(
            (costs[n] + least(max(0, left - n)) for n in fitting), default=math.inf
        )

    return least(num_tokens)


@given(counts, starts, spares, costs, st.booleans())
def test_all_tokens_in_order_and_inside_the_cache(count, start, spare, costs, can_pad):
    limit = start + count + spare
    plan = plan_prefill(count, start, limit, costs, can_pad=can_pad)
    position = start
    for chunk in plan:
        assert 0 < chunk.num_tokens <= chunk.length
        assert position + chunk.length <= limit
        assert can_pad or chunk.num_tokens == chunk.length
        position += chunk.num_tokens
    assert position == start + count


@given(st.integers(0, 60), starts, spares, costs, st.booleans())
def test_no_plan_is_cheaper(count, start, spare, costs, can_pad):
    limit = start + count + spare
    plan = plan_prefill(count, start, limit, costs, can_pad=can_pad)
    least = least_cost(count, start, limit, costs, can_pad)
    assert math.isclose(cost_of(plan, costs), least, abs_tol=1e-9)


def test_the_tail_is_padded_or_decoded_as_is_cheaper():
    def chunks(count, limit):
        plan = plan_prefill(count, 0, limit, {1: 1.0, 8: 3.0})
        return sorted((chunk.length, chunk.num_tokens) for chunk in plan)

    assert chunks(10, 99) == [(1, 1), (1, 1), (8, 8)]
    assert chunks(13, 99) == [(8, 5), (8, 8)]
    assert chunks(13, 13) == [*[(1, 1)] * 5, (8, 8)]
