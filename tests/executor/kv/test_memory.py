"""Memory of caches is zeroed, its own, and waits for the next one when it is free."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from litert_lm.errors import ContextFullError
from litert_lm.executor.kv import memory
from litert_lm.executor.kv.memory import forget_spare_memory, zeroed

NBYTES = 3_000_001


@pytest.fixture(autouse=True)
def _no_spare() -> Iterator[None]:
    gc.collect()
    forget_spare_memory()
    yield
    forget_spare_memory()


def used(nbytes: int) -> int:
    """Where memory was that somebody wrote into and gave away."""
    block = zeroed(nbytes)
    block.fill(7)
    return block.ctypes.data


@pytest.mark.parametrize("nbytes", [NBYTES, NBYTES - 700_000, 1])
def test_free_memory_serves_again_and_holds_nothing(nbytes: int) -> None:
    address = used(NBYTES)
    block = zeroed(nbytes)
    assert block.shape == (nbytes,)
    assert not block.any()
    assert (block.ctypes.data == address) == (nbytes > 1)


def test_memory_in_use_is_nobody_elses() -> None:
    address = used(NBYTES)
    first, second = zeroed(NBYTES), zeroed(NBYTES)
    assert first.ctypes.data == address
    first.fill(1)
    assert not second.any()


def test_a_part_keeps_the_whole() -> None:
    part = zeroed(NBYTES)[100:200].view(np.float32)
    part.fill(1)
    zeroed(NBYTES).fill(7)
    assert (part == 1).all()


def test_a_short_cache_leaves_a_long_ones_memory() -> None:
    address = used(8 * NBYTES)
    assert zeroed(NBYTES).ctypes.data != address
    assert zeroed(7 * NBYTES).ctypes.data == address


def test_not_much_waits() -> None:
    blocks = [zeroed(20 << 20) for _ in range(5)]
    blocks.append(zeroed(80 << 20))
    blocks.clear()
    assert sum(map(len, memory._spare)) <= 64 << 20
    assert len(memory._spare) == 2
    forget_spare_memory()
    assert not memory._spare


def test_too_much_memory_is_refused() -> None:
    with pytest.raises(ContextFullError, match="No memory for a KV cache"):
        zeroed(1 << 62)
