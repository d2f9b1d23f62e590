"""Cache lengths that are used by turns get copies of what is compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert_lm.executor.steps import compiled_copies
from litert_lm.executor.steps.compiled_copies import CompiledCopies
from tests.fixtures.llama import llama_bundle

LIVE = {128, 256, 384, 512}


def test_one_length_after_another_takes_one_copy() -> None:
    copies = CompiledCopies(3)
    assert copies.take(128, {128}) == (0, -1)
    assert copies.take(256, {256}) == (0, 128)
    assert copies.take(384, {384}) == (0, 256)


def test_lengths_by_turns_take_one_each_up_to_the_most() -> None:
    copies = CompiledCopies(2)
    taken = [copies.take(n, LIVE) for n in (128, 256, 128)]
    assert taken == [(0, -1), (0, 128), (1, -1)]
    assert copies.take(384, LIVE) == (0, 256)
    assert copies.take(256, LIVE) == (1, 128)


def test_a_length_that_comes_back_much_later_takes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies, now = CompiledCopies(3), [0.0]
    monkeypatch.setattr(compiled_copies, "monotonic", lambda: now[0])
    for seconds, length in ((0, 128), (5, 256), (10, 128)):
        now[0] = seconds
        assert copies.take(length, LIVE)[0] == 0


def test_the_copy_of_a_length_that_nobody_has_is_free() -> None:
    copies = CompiledCopies(3)
    for length in (128, 256, 128):
        copies.take(length, LIVE)
    assert copies.take(512, {128, 512}) == (0, 256)


def test_steps_by_turns_are_as_alone(
    open_model: Callable[..., Any], save_bundle: Callable[..., Path]
) -> None:
    path = save_bundle("llama of 512 tokens", lambda: llama_bundle(context=512))
    executor = open_model(path)
    starts, found = (10, 140, 300), []

    def begin(count: int) -> Any:
        cache = executor.new_cache()
        executor.prefill(cache, [i % 60 for i in range(count)])
        return cache

    alone = [begin(count) for count in starts]
    expected = [executor.decode(c, 5).copy() for c in alone for _ in range(4)]
    caches = [begin(count) for count in starts]
    for _ in range(4):
        found += [executor.decode(cache, 5).copy() for cache in caches]
    ordered = [found[step * 3 + place] for place in range(3) for step in range(4)]
    assert len({cache.length for cache in caches}) == 3
    assert all(map(np.array_equal, ordered, expected))
