"""Runs an unknown model once, to learn what later loads depend on.

Finds out whether the cache can be shortened and how long calls take, and fills the
weight cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from litert_lm import errors
from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.tflite import TfliteModel, read_tflite
from litert_lm.bundle.verify import verify_model
from litert_lm.config import Progress, no_progress
from litert_lm.executor.batch_probe import batch_seconds, updates_in_place
from litert_lm.executor.executor import Executor
from litert_lm.executor.facts import ModelFacts
from litert_lm.executor.layout.layout import ModelLayout
from litert_lm.executor.layout.mask_use import check_masks
from litert_lm.executor.layout.state_reader import read_updates
from litert_lm.executor.layout.step_reader import MAIN
from litert_lm.executor.opening import (
    ExecutorOptions,
    layout_of,
    model_sections,
    open_executor,
)
from litert_lm.executor.patching.patch_reader import read_patches

__all__ = ["examine"]

STAGE = "Examining the model"
_ROUNDS = 2
_TOLERANCE = 0.05  # of the largest logit, between an accelerator and the CPU
_ROUNDING = 1e-4  # of the largest logit, where sums are added up in another order
_QUICK = 0.5  # seconds; calls longer than this are timed once


Fresh = Callable[[ModelFacts, int], Executor]


def examine(
    bundle: Bundle,
    options: ExecutorOptions,
    progress: Progress = no_progress,
    report: Callable[[ModelFacts], None] | None = None,
) -> ModelFacts:
    """Verify, compile and run every signature in use; measure what loads depend on.

    `report` is given what is known before anything is tried that a sound model might
    crash at.
    """
    progress(STAGE, 0.0)
    models = {
        kind: verify_model(data, f"{bundle.path} ({kind})")
        for kind, data in model_sections(bundle).items()
    }
    facts = ModelFacts(updates=read_updates(models))
    _check_masks(models[MAIN], layout_of(bundle, models, facts))

    def fresh(known: ModelFacts, num_threads: int) -> Executor:
        return open_executor(bundle, replace(options, num_threads=num_threads), known)

    counts = [options.num_threads] if options.num_threads else thread_counts()
    progress(STAGE, 0.1)
    fixed = fresh(facts, counts[0])
    reference = _first_logits(fixed, bundle, options)
    fixed.close()
    if options.accelerator != "cpu":
        _compare_with_cpu(bundle, replace(options, accelerator="cpu"), reference)
    if report is not None:
        report(facts)
    progress(STAGE, 0.4)
    facts = _shortened(bundle, models, options, facts, reference, fresh)
    if options.accelerator == "cpu" and facts.is_resizable:
        layout = layout_of(bundle, models, facts)
        facts = replace(facts, batch_keys=updates_in_place(models[MAIN], layout))
    for done, count in enumerate(counts):
        progress(STAGE, 0.6 + 0.4 * done / len(counts))
        facts = _timed(facts, count, fresh)
    progress(STAGE, 1.0)
    return facts


def _check_masks(model: TfliteModel, layout: ModelLayout) -> None:
    used = {step.key for step in (*layout.decode, *layout.prefill)}
    for signature in model.signatures:
        if signature.key in used:
            check_masks(model, signature)


def _first_logits(
    executor: Executor, bundle: Bundle, options: ExecutorOptions
) -> dict[int, Any]:
    """Logits after a chunk of each length; the first time that anything runs."""
    try:
        return {length: _logits(executor, length) for length in executor.lengths}
    except errors.ExecutionError as error:
        if options.accelerator != "cpu":
            raise
        raise errors.UnsupportedModelError(
            f"{bundle.path} cannot be run on a CPU: {error} Use a bundle that was "
            "exported for CPUs."
        ) from error


def _timed(facts: ModelFacts, num_threads: int, fresh: Fresh) -> ModelFacts:
    """The facts with what calls cost with that many threads."""
    costs = _costs(fresh(facts, num_threads))
    if facts.batch_keys:
        together = _batch_costs(fresh(facts, num_threads))
        costs |= together
        facts = replace(facts, batch_keys=tuple(together))
    return replace(facts, costs={**facts.costs, num_threads: costs})


def _costs(executor: Executor) -> dict[str, float]:
    """Signature key -> seconds of one call; closes the executor."""
    costs = {
        executor.step_key(length): _seconds(executor, length)
        for length in executor.lengths
    }
    executor.close()
    return costs


def _batch_costs(executor: Executor) -> dict[str, float]:
    """Signature key -> seconds of the steps that are exact; closes the executor."""
    seconds = batch_seconds(executor)
    key = executor.batch_key
    executor.close()
    return {} if seconds is None or key is None else {key: seconds}


def _shortened(
    bundle: Bundle,
    models: Mapping[str, TfliteModel],
    options: ExecutorOptions,
    facts: ModelFacts,
    reference: Mapping[int, Any],
    fresh: Fresh,
) -> ModelFacts:
    """The facts with the way to a shorter cache that leaves the logits as they are."""
    num_threads = options.num_threads or 1
    resized = replace(facts, is_resizable=True)
    if _gives(reference, fresh(resized, num_threads), 0):
        return resized
    if options.accelerator != "cpu":
        return facts
    try:
        patches = read_patches(models, layout_of(bundle, models, facts))
    except errors.UnsupportedModelError:
        return facts
    # Where the cache's axis is joined with another, sums are rounded differently.
    is_joined = any(len(it) > 1 for patch in patches.values() for it in patch.numbers)
    patched = replace(facts, patches=patches)
    tolerance = _ROUNDING if is_joined else 0
    if patches and _gives(reference, fresh(patched, num_threads), tolerance):
        return patched
    return facts


def _compare_with_cpu(
    bundle: Bundle, options: ExecutorOptions, logits: Mapping[int, Any]
) -> None:
    """Raise BackendError when an accelerator's logits are not those of the CPU.

    Some drivers report success and leave zeros.
    """
    models = {kind: read_tflite(d, kind) for kind, d in model_sections(bundle).items()}
    cpu = open_executor(bundle, options, ModelFacts(updates=read_updates(models)))
    for length in cpu.lengths:
        if not _are_close(_logits(cpu, length), logits[length], _TOLERANCE):
            raise errors.BackendError(
                f"{bundle.path} gives other logits on the accelerator than on the CPU; "
                "use Backend.CPU()."
            )
    cpu.close()


def _gives(reference: Mapping[int, Any], executor: Executor, tolerance: float) -> bool:
    """Whether an executor with shorter caches gives the same logits; closes it.

    They must be equal bit for bit, or within a tolerance that is a share of the
    largest.
    """
    try:
        return executor.is_resizable and all(
            np.array_equal(reference[length], found := _logits(executor, length))
            or (tolerance > 0 and _are_close(reference[length], found, tolerance))
            for length in executor.lengths
        )
    except (errors.ExecutionError, errors.ModelFileError):
        return False
    finally:
        executor.close()


def _are_close(wanted: Any, found: Any, tolerance: float) -> bool:
    """Whether no logit is off by more than a share of the largest; never for NaN."""
    return bool(np.abs(wanted - found).max() <= tolerance * np.abs(wanted).max())


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
