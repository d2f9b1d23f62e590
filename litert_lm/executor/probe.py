"""The first load of an unknown model, in a child process.

LiteRT crashes on some damaged graphs even after all checks, so an unknown model is
compiled and run once where a crash hurts nobody. The same run finds out whether the
cache can be shortened and how long calls take, and fills the weight cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from litert_lm import errors
from litert_lm.bundle import open_bundle
from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.verify import verify_model
from litert_lm.executor.cache_dir import CacheDirectory
from litert_lm.executor.executor import Executor
from litert_lm.executor.facts import ModelFacts
from litert_lm.executor.layout_reader import read_updates

if TYPE_CHECKING:
    from litert_lm.executor.opening import ExecutorOptions

__all__ = ["first_load"]

_MIN_SECONDS = 30.0
_BYTES_PER_SECOND = 2e6  # a slow board packs and runs weights at least this fast
_ROUNDS = 2
_TOLERANCE = 0.05  # of the largest logit, between an accelerator and the CPU
_QUICK = 0.5  # seconds; calls longer than this are timed once


def first_load(bundle: Bundle, options: ExecutorOptions) -> ModelFacts:
    """Facts of a model that was never loaded here; `failure` set when it crashes.

    Raises:
        LiteRtLmError: what the child found wrong with the file.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return examine(bundle, options)  # no interpreter to start a child with
    limit = _MIN_SECONDS + bundle.path.stat().st_size / _BYTES_PER_SECOND
    try:
        child = subprocess.run(
            _command(bundle, options),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _failed(bundle, options, f"does not load within {limit:.0f} s")
    except OSError:
        return examine(bundle, options)  # processes cannot be started here
    return _result(bundle, options, child)


def _command(bundle: Bundle, options: ExecutorOptions) -> list[str]:
    threads = options.num_threads or 0
    values = [str(bundle.path), options.cache_dir, options.accelerator, threads]
    return [sys.executable, "-P", "-m", __name__, json.dumps(values)]


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(path for path in sys.path if path)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _result(
    bundle: Bundle,
    options: ExecutorOptions,
    child: subprocess.CompletedProcess[bytes],
) -> ModelFacts:
    lines = child.stdout.decode("utf-8", "replace").splitlines()
    answer: Any = None
    if lines:
        with contextlib.suppress(ValueError):
            answer = json.loads(lines[-1])
    if isinstance(answer, dict) and "error" in answer:
        kind, message = answer["error"]
        raise getattr(errors, kind, errors.ModelFileError)(message)
    facts = ModelFacts.from_json(answer)
    if facts is not None:
        return facts
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        return _failed(bundle, options, f"crashes LiteRT ({name})")
    detail = child.stderr.decode("utf-8", "replace").strip().splitlines()
    reason = detail[-1] if detail else f"exit status {child.returncode}"
    return _failed(bundle, options, f"cannot be loaded ({reason})")


def _failed(bundle: Bundle, options: ExecutorOptions, what: str) -> ModelFacts:
    if options.accelerator == "cpu":
        hint = "the file is probably damaged, get it again."
    else:
        what += f" on the {options.accelerator}"
        hint = "use Backend.CPU()."
    return ModelFacts(failure=f"{bundle.path} {what}; {hint}")


def examine(bundle: Bundle, options: ExecutorOptions) -> ModelFacts:
    """Verify, compile and run every signature in use; measure what loads depend on."""
    from litert_lm.executor.opening import assemble, model_sections

    models = {
        kind: verify_model(data, f"{bundle.path} ({kind})")
        for kind, data in model_sections(bundle).items()
    }
    cache = CacheDirectory(options.cache_dir, bundle.path)
    facts = ModelFacts(updates=read_updates(models))

    def fresh(known: ModelFacts, num_threads: int) -> Executor:
        return assemble(bundle, options, cache, known, num_threads)

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
    from litert_lm.executor.opening import open_executor

    cpu = open_executor(bundle, options)
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


def main(argument: str) -> None:
    """Examine a bundle and write the facts, or the error, to standard output."""
    from litert_lm.executor.opening import ExecutorOptions

    path, cache_dir, accelerator, threads = json.loads(argument)
    options = ExecutorOptions(
        accelerator=accelerator, num_threads=threads or None, cache_dir=cache_dir
    )
    try:
        with open_bundle(path) as bundle:
            answer = examine(bundle, options).to_json()
    except errors.LiteRtLmError as error:
        answer = {"error": [type(error).__name__, str(error)]}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
