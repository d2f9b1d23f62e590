"""Masks of a decode step: what changed is written, and nothing else differs."""

from __future__ import annotations

import numpy as np
import pytest

from litert_lm.executor.layout.signatures import Feed, Role
from litert_lm.executor.steps.feeds import make_step_writer, make_writer

FULL = -0.7 * np.finfo(np.float32).max


def visible(position: int, window: int, ring: int, width: int) -> list[bool]:
    """Which columns a token at `position` may see, by the definition of a window."""
    seen = range(max(0, position - window + 1), position + 1)
    if not ring:
        return [column in seen for column in range(width)]
    has_own_column = width == ring + 1
    newest = position - has_own_column
    held = {p % ring: p for p in range(max(0, newest - ring + 1), newest + 1)}
    columns = [held.get(column, -1) in seen for column in range(ring)]
    return columns + [True] * has_own_column


@pytest.mark.parametrize(
    ("window", "ring", "width"),
    [(4, 0, 16), (16, 0, 16), (4, 4, 4), (4, 8, 8), (3, 8, 9), (8, 8, 9), (1, 4, 5)],
)
@pytest.mark.parametrize("positions", [range(16), [0, 1, 2, 9, 10, 4, 5, 5, 6, 12, 13]])
def test_a_decode_step_sees_its_window(
    window: int, ring: int, width: int, positions: list[int]
) -> None:
    shape = (1, 1, 1, width)
    feed = Feed("mask", Role.LOCAL_MASK, shape, np.dtype(np.float32), window, ring)
    writer = make_writer(feed, np.zeros(shape, np.float32), 0)
    for position in positions:
        writer.write_one(7, position)
        expected = visible(position, window, ring, width)
        assert (writer.array.reshape(-1) == 0).tolist() == expected
        assert set(writer.array.reshape(-1)) <= {np.float32(0), np.float32(FULL)}


@pytest.mark.parametrize("mask", [np.float32, np.float16, np.bool_])
@pytest.mark.parametrize("window", [0, 4])
def test_a_step_writer_writes_what_each_writer_would(mask: type, window: int) -> None:
    role = Role.LOCAL_MASK if window else Role.MASK
    feeds = [
        Feed("tokens", Role.TOKENS, (1, 1), np.dtype(np.int32)),
        Feed("mask", role, (1, 1, 1, 16), np.dtype(mask), window),
        Feed("input_pos", Role.POSITIONS, (1,), np.dtype(np.int32)),
    ]
    one, each = (
        [make_writer(feed, np.zeros(feed.shape, feed.dtype), 0) for feed in feeds]
        for _ in range(2)
    )
    write = make_step_writer(one)
    for token, position in enumerate([0, 1, 2, 9, 10, 4, 5, 5, 6, 12, 13, 0]):
        write(token, position)
        for writer in each:
            writer.write_one(token, position)
        for ours, theirs in zip(one, each, strict=True):
            np.testing.assert_array_equal(ours.array, theirs.array)
