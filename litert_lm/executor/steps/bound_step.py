"""The decode step of a sequence, with all that it needs bound to one function.

A step runs once per token, right after the model has swept the CPU's caches with its
weights. Every function and object that it touches then is read from main memory, at
0.1 us and more each, so the way through the layers that decide how to run a step costs
more than what it does. One step takes that way; while nothing changes, those behind it
take the function that is bound here.
"""

from __future__ import annotations

from collections.abc import Callable, Sized

import numpy as np
import numpy.typing as npt

from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.steps.call_queue import CallQueue
from litert_lm.executor.steps.runners import Runners
from litert_lm.executor.steps.step_runner import StepRunner

__all__ = ["BoundStep", "bind_step"]

BoundStep = Callable[[KVCache, int], npt.NDArray[np.float32]]
"""Stores a token's entry in a cache; the logits [vocab_size] after it."""


def bind_step(
    cache: KVCache,
    runner: StepRunner,
    *,
    runners: Runners,
    queue: CallQueue,
    away: Sized,
    limit: int,
    unbound: BoundStep,
) -> BoundStep:
    """The decode step over a cache's present arrays.

    The function holds the arrays but not the cache, which keeps it.

    Args:
        runner: of the step, for which the cache is bindable; it serves while it is the
            last decoder of `runners`.
        queue, away: the step runs while nobody stands in line or is expected back.
        limit: entries that the cache may have.
        unbound: takes all other steps.
    """
    write, run, fail, logits = runner.step_parts(cache)
    line, lock, is_taken = queue.line, queue.lock, queue.lock.locked
    most = min(cache.length, limit)

    def step(cache: KVCache, token_id: int) -> npt.NDArray[np.float32]:
        position = cache.num_tokens
        if position >= most or line or away or is_taken():
            return unbound(cache, token_id)
        with lock:
            if runners.last_decoder is runner:
                try:
                    write(token_id, position)
                    if status := run():
                        fail(status)
                    cache.num_tokens = position + 1
                    return logits
                except BaseException:
                    runners.forget()
                    raise
        return unbound(cache, token_id)

    return step
