"""Entries stay what they are, wherever the arrays of a cache put them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert_lm.executor.kv.kv_cache import KVCache, entries
from litert_lm.executor.layout.layout import State

SHAPES = [
    ((1, 3, 64, 8), 2),
    ((1, 3, 8, 64), 3),
    ((1, 64, 3, 8), 1),
    ((2, 3, 64, 8), 2),
    ((2, 3, 8, 64), 3),
    ((2, 64, 3, 8), 1),
    ((64, 8), 0),
    ((2, 1, 3, 4, 64), 4),
]


def state_of(shape: tuple[int, ...], axis: int) -> State:
    return State("k", shape, np.dtype(np.float32), axis)


def filled(state: State, length: int, reserve: int, count: int) -> tuple[Any, Any]:
    """A cache with `count` entries of random numbers, and these."""
    cache = KVCache({state.name: state}, ())
    cache.grow(length, reserve)
    part = entries(state, 0, count)
    array = cache.array("k")
    array[part] = np.random.default_rng(1).normal(size=array[part].shape)
    cache.num_tokens = count
    return cache, array[part].copy()


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("reserve", [0, 64])
def test_growing_keeps_entries(shape: tuple[int, ...], axis: int, reserve: int) -> None:
    state = state_of(shape, axis)
    cache, expected = filled(state, 9, reserve, 7)
    for length in (10, 16, 33, 64):
        cache.grow(length, reserve)
        kept = cache.array("k")[entries(state, 0, 7)]
        np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("length", [7, 8, 19, 33, 64])
def test_memory_that_is_adopted_keeps_entries(
    shape: tuple[int, ...], axis: int, length: int
) -> None:
    state = state_of(shape, axis)
    cache, expected = filled(state, 33, 64, 20)
    adopting = KVCache({state.name: state}, ())
    adopting.adopt(cache.release(), 7, length)
    kept = adopting.array("k")[entries(state, 0, 7)]
    np.testing.assert_array_equal(kept, expected[entries(state, 0, 7)])
