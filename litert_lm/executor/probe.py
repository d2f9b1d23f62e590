"""Runs an unknown model once, to learn what later loads depend on.

Finds out whether the cache can be shortened and how long calls take, and fills the
weight cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from litert_lm import errors
from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.tflite import read_tflite
from litert_lm.bundle.verify import verify_model
from litert_lm.executor.executor import Executor
from litert_lm.executor.facts import ModelFacts
from litert_lm.executor.opening import (
    ExecutorOptions,
    model_sections,
    open_executor,
)
from litert_lm.executor.state_reader import read_updates

__all__ = ["examine"]

_ROUNDS = 2
_TOLERANCE = 0.05  # of the largest logit, between an accelerator and the CPU
_QUICK = 0.5  # seconds; calls longer than this are timed once


def examine(bundle: Bundle, options: ExecutorOptions) -> ModelFacts:
    """Verify, compile and run every signature in use; measure what loads depend on."""
    models = {
        kind: verify_model(data, f"{bundle.path} ({kind})")
        for kind, data in model_sections(bundle).items()
    }
    facts = ModelFacts(updates=read_updates(models))

    def fresh(known: ModelFacts, num_threads: int) -> Executor:
        return open_executor(bundle, replace(options, num_threads=num_threads), known)

    counts = [options.num_threads] if options.num_threads else thread_counts()
    fixed = fresh(facts, counts[0])
    reference = [_logits(fixed, length) for length in fixed.lengths]
    fixed.close()
    if options.accelerator != "cpu":
        _compare_with_cpu(bundle, replace(options, accelerator="cpu"), reference)
    resized = replace(facts, is_resizable=True)
    if _gives(reference, lambda: fresh(resized, counts[0])):
        facts = resized
    costs = {}
    for count in counts:
        executor = fresh(facts, count)
        costs[count] = {
            executor.step_key(length): _seconds(executor, length)
            for length in executor.lengths
        }
        executor.close()
    return replace(facts, costs=costs)


def _compare_with_cpu(
    bundle: Bundle, options: ExecutorOptions, logits: list[Any]
) -> None:
    """Raise BackendError when an accelerator's logits are not those of the CPU.

    Some drivers report success and leave zeros.
    """
    models = {kind: read_tflite(d, kind) for kind, d in model_sections(bundle).items()}
    cpu = open_executor(bundle, options, ModelFacts(updates=read_updates(models)))
    for length, found in zip(cpu.lengths, logits, strict=True):
        wanted = _logits(cpu, length)
        scale = float(np.abs(wanted).max()) + 1e-6
        if not np.abs(wanted - found).max() <= _TOLERANCE * scale:
            raise errors.BackendError(
                f"{bundle.path} gives other logits on the accelerator than on the CPU; "
                "use Backend.CPU()."
            )
    cpu.close()


def _gives(reference: list[Any], make: Callable[[], Executor]) -> bool:
    """Whether another executor gives bit-equal logits."""
    executor = make()
    try:
        return all(
            np.array_equal(logits, _logits(executor, length))
            for length, logits in zip(executor.lengths, reference, strict=True)
        )
    except errors.ExecutionError:
        return False
    finally:
        executor.close()


def _logits(executor: Executor, length: int) -> Any:
    """Logits of a decode step after one chunk of `length` tokens."""
    ids = [(7 * i + 3) % executor.vocab_size for i in range(length)]
    cache = executor.new_cache()
    if length > 1:
        executor.run_chunk(cache, length, ids)
    if cache.num_tokens >= executor.context_length:
        return cache.num_tokens
    return executor.decode(cache, ids[-1]).copy()


def _seconds(executor: Executor, length: int) -> float:
    """Seconds of one call with `length` tokens, the median of a few after a first."""
    times: list[float] = []
    cache = executor.new_cache()
    while len(times) <= _ROUNDS and not (times and times[-1] > _QUICK):
        cache.clear()
        begin = time.perf_counter()
        executor.run_chunk(cache, length, [1] * length)
        times.append(time.perf_counter() - begin)
    return float(np.median(times[1:] or times))


def thread_counts() -> list[int]:
    """Thread counts worth trying here: one, half and all of the usable cores."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return sorted({1, max(1, cores // 2), cores})
