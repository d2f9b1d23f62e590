"""Extents against arrays: what grows is where the arithmetic says."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from litert_lm.executor.patching.extents import joined, part, reshaped, size

OLD, NEW = 5, 3

pieces = st.one_of(st.integers(1, 4), st.integers(-3, -1))
extents = st.lists(pieces, min_size=1, max_size=4).map(lambda it: joined([tuple(it)]))


def kept(extent: tuple[int, ...]) -> list[int]:
    """Entries beside OLD tokens that are there beside NEW ones."""
    entries, start = [], 0
    for piece in extent:
        entries += range(start, start + size((piece,), NEW))
        start += size((piece,), OLD)
    return entries


@st.composite
def reshapes(draw):
    """A shape with one growing axis, and another shape of as many elements."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(shape) - 1))
    extent = draw(extents.filter(lambda it: min(it) < 0))
    shape[axis] = size(extent, OLD)
    rest, target = math.prod(shape), []
    for _ in range(draw(st.integers(0, 4))):
        divisors = [n for n in range(1, rest + 1) if rest % n == 0]
        target.append(draw(st.sampled_from(divisors)))
        rest //= target[-1]
    return shape, axis, extent, [*target, rest]


@given(reshapes())
def test_reshaping_less_is_less_of_the_reshaped(case):
    shape, axis, extent, target = case
    found = reshaped({axis: extent}, shape, target, OLD)
    if found is None:
        return
    ((place, grown),) = found.items()
    whole = np.arange(math.prod(shape)).reshape(shape)
    less = whole.take(kept(extent), axis)
    new_target = [*target[:place], size(grown, NEW), *target[place + 1 :]]
    expected = whole.reshape(target).take(kept(grown), place)
    assert np.array_equal(less.reshape(new_target), expected)


@given(extents, st.integers(0, 30), st.integers(1, 30))
def test_a_part_keeps_its_entries(extent, start, count):
    whole = np.arange(size(extent, OLD))
    if start + count > len(whole):
        return
    found = part(extent, start, count, OLD)
    if found is None:
        return
    before, within = found
    less = whole[kept(extent)]
    begin = size(before, NEW)
    expected = whole[start : start + count][kept(within)]
    assert np.array_equal(less[begin : begin + size(within, NEW)], expected)


def test_common_reshapes_are_understood():
    cache = (-1,)
    for shape, axis, target, expected in [
        ([1, 2, 2, 64], 3, [2, 2, 1, 64], {3: cache}),
        ([1, 2, 64, 32], 2, [1, 2, 1, 64, 32], {3: cache}),
        ([2, 64], 1, [128], {0: (-1, -1)}),
        ([64, 8], 0, [512], {0: (-8,)}),
        ([64, 64], 0, [64, 8, 8], {0: cache}),
        ([64, 64], 1, [8, 8, 64], {2: cache}),
    ]:
        assert reshaped({axis: cache}, shape, target, 64) == expected


def test_a_cache_that_is_cut_up_is_not_understood():
    assert reshaped({0: (-1,)}, [64, 2], [2, 64], 64) is None
    assert reshaped({1: (-1,)}, [2, 64], [4, 32], 64) is None
    assert part((-1,), 0, 32, 64) is None
