"""Memory of caches is zeroed, its own, and waits for the next one when it is free."""

from __future__ import annotations

import mmap
import weakref

import numpy as np
import pytest

from litert_lm.errors import ContextFullError
from litert_lm.executor.kv import memory
from litert_lm.executor.kv.memory import SpareMemory

NBYTES = 8_000_001


@pytest.fixture
def spare() -> SpareMemory:
    return SpareMemory()


def used(spare: SpareMemory, nbytes: int) -> int:
    """Where memory was that somebody wrote into and left."""
    block = spare.zeroed(nbytes)
    block.fill(7)
    return block.ctypes.data


@pytest.mark.parametrize("nbytes", [NBYTES, NBYTES - 700_000])
def test_what_is_left_serves_again_and_holds_nothing(
    spare: SpareMemory, nbytes: int
) -> None:
    address = used(spare, NBYTES)
    block = spare.zeroed(nbytes)
    assert block.shape == (nbytes,)
    assert not block.any()
    assert block.ctypes.data == address


def test_memory_in_use_is_nobody_elses(spare: SpareMemory) -> None:
    address = used(spare, NBYTES)
    first, second = spare.zeroed(NBYTES), spare.zeroed(NBYTES)
    assert first.ctypes.data == address
    first.fill(1)
    assert not second.any()


def test_a_part_keeps_the_whole(spare: SpareMemory) -> None:
    part = spare.zeroed(NBYTES)[100:200].view(np.float32)
    part.fill(1)
    spare.zeroed(NBYTES).fill(7)
    assert (part == 1).all()


@pytest.mark.parametrize("nbytes", [1, NBYTES // 2, 2 * NBYTES])
def test_memory_of_another_size_is_new(spare: SpareMemory, nbytes: int) -> None:
    used(spare, NBYTES)
    waiting = spare.nbytes
    assert waiting
    block = spare.zeroed(nbytes)
    assert not block.any()
    assert spare.nbytes == waiting


def test_not_much_waits_and_that_is_the_newest(spare: SpareMemory) -> None:
    for nbytes in (10 << 20, 20 << 20, 30 << 20, 80 << 20, 1):
        used(spare, nbytes)
    assert spare.nbytes <= 64 << 20
    before = spare.nbytes
    block = spare.zeroed(30 << 20)
    assert spare.nbytes < before
    assert not block.any()


def test_what_is_closed_keeps_nothing(spare: SpareMemory) -> None:
    block = spare.zeroed(NBYTES)
    used(spare, NBYTES)
    spare.close()
    assert spare.nbytes == 0
    del block
    assert spare.nbytes == 0


def test_what_waits_goes_with_its_owner() -> None:
    spare = SpareMemory()
    used(spare, NBYTES)
    gone = weakref.ref(spare)
    del spare
    assert gone() is None


def test_what_waits_is_given_back_before_memory_is_refused(
    spare: SpareMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(spare, NBYTES)
    real = memory._anonymous

    def anonymous(nbytes: int) -> mmap.mmap:
        if spare.nbytes:
            raise OSError("Cannot allocate memory")
        return real(nbytes)

    monkeypatch.setattr(memory, "_anonymous", anonymous)
    assert len(spare.zeroed(3 * NBYTES)) == 3 * NBYTES


def test_too_much_memory_is_refused(spare: SpareMemory) -> None:
    with pytest.raises(ContextFullError, match="No memory for a KV cache of 4611686"):
        spare.zeroed(1 << 62)
