"""Greedy decoding with nothing but an executor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.kv_cache import KVCache
from tests.fixtures.echo import EchoOptions
from tests.fixtures.echo_tokens import NUM_REAL, encode, shadow_names

__all__ = ["dump", "greedy", "spelled"]


def greedy(
    executor: Executor,
    cache: KVCache,
    token_ids: Sequence[int],
    count: int,
    stop: int | None = None,
) -> list[int]:
    """Up to `count` tokens after `token_ids`, the stop token left out.

    The cache then holds all entries but that of the last token said.
    """
    executor.prefill(cache, token_ids[:-1])
    said, last = [], token_ids[-1]
    for _ in range(count):
        last = int(np.argmax(executor.decode(cache, last)))
        if last == stop:
            break
        said.append(last)
    return said


def dump(
    executor: Executor,
    options: EchoOptions,
    token_ids: Sequence[int],
    cache: KVCache | None = None,
) -> str:
    """What an echo model says of its cache after `token_ids`."""
    cache = cache or executor.new_cache()
    (stop,) = encode([options.stop])
    room = executor.context_length - cache.num_tokens - len(token_ids) + 1
    return spelled(options, greedy(executor, cache, token_ids, room, stop))


def spelled(options: EchoOptions, token_ids: Sequence[int]) -> str:
    """Text of shadow tokens; of real ones their shadows' text."""
    names = shadow_names(options.readout, options.merges)
    return "".join(names[token_id % NUM_REAL] for token_id in token_ids)
