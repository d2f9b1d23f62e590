"""Tries whether decoding several sequences at once changes any of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from litert_lm.bundle.tflite import TfliteModel
from litert_lm.errors import ExecutionError, ModelFileError
from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.kv_cache import KVCache, entries
from litert_lm.executor.layout.layout import ModelLayout
from litert_lm.executor.layout.state_updates import state_updates

__all__ = ["batch_seconds", "updates_in_place"]

_STEPS = 2  # the second one reads what the first has written
_SEED = 7


def updates_in_place(model: TfliteModel, layout: ModelLayout) -> tuple[str, ...]:
    """Keys of the batch steps that may write into the caches that they read."""
    keys = []
    for step in layout.batch:
        signature = next(s for s in model.signatures if s.key == step.key)
        updates = state_updates(model, signature)
        names = [name for row in step.states for name in row.values()]
        found = [updates.get(name) for name in names]
        if all(
            update is not None and update.in_place and update.source == name
            for name, update in zip(names, found, strict=True)
        ):
            keys.append(step.key)
    return tuple(keys)


def batch_seconds(executor: Executor) -> float | None:
    """Seconds of the executor's batch step; None unless it is exact.

    It is when logits and cache entries are those of single steps, bit for bit, with all
    rows and with some, for caches of the lengths that most requests have.
    """
    times: list[float] = []
    random = np.random.default_rng(_SEED)
    lengths = [n for n in executor.cache_lengths if n > _STEPS][:2]
    try:
        for length in lengths if executor.max_batch else ():
            for size in sorted({2, executor.max_batch}):
                times += _tried(executor, length, size, random)
    except (ExecutionError, ModelFileError):
        return None
    return None if not times or np.isnan(times).any() else float(np.median(times))


def _tried(
    executor: Executor, length: int, size: int, random: np.random.Generator
) -> Iterator[float]:
    """Seconds of some steps; NaN after one that was not exact."""
    starts = random.integers(0, length - _STEPS, size).tolist()
    caches = [_filled(executor, length, start, random) for start in starts]
    alone = [executor.new_cache() for _ in caches]
    for cache, copy in zip(caches, alone, strict=True):
        copy.copy_from(cache)
    for _ in range(_STEPS):
        ids = random.integers(0, executor.vocab_size, size).tolist()
        begin = time.perf_counter()
        together = executor.decode_together(caches, ids)
        yield time.perf_counter() - begin
        for logits, copy, token_id in zip(together, alone, ids, strict=True):
            if not np.array_equal(logits, executor.decode(copy, token_id)):
                yield float("nan")
                return
    if not all(map(_are_equal, caches, alone)):
        yield float("nan")


def _filled(
    executor: Executor, length: int, num_tokens: int, random: np.random.Generator
) -> KVCache:
    """A cache with random entries."""
    cache = executor.new_cache()
    cache.grow(length, length)
    for name in cache.states:
        array = cache.array(name)
        array[...] = random.standard_normal(array.shape, np.float32)
    cache.num_tokens = num_tokens
    return cache


def _are_equal(a: KVCache, b: KVCache) -> bool:
    return all(
        np.array_equal(a.array(name)[part], b.array(name)[part])
        for name, state in a.states.items()
        if (part := entries(state, 0, a.num_tokens))
    )
