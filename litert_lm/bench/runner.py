"""Runs the benchmark of one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING

from litert_lm.bench.load import LoadJob, LoadTimes, measure_load
from litert_lm.bench.machine import Machine
from litert_lm.bench.workload import answer, new_session, prompt_ids
from litert_lm.config import Backend, check_count
from litert_lm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from litert_lm.bench.steps import SamplerTimes, StepTimes
    from litert_lm.engine import Engine

__all__ = ["BenchOptions", "BenchResult", "Row", "run_bench"]

_MAX_STEPS = 128  # of the run that splits a decode step
_SHORT_PROMPT = 8  # tokens, before these


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured.

    Args:
        prompt_lengths: tokens of each prefill test.
        decode_lengths: tokens of each decode test.
        depths: entries in the cache before each test.
        repetitions: counted runs of each test; one more warms up.
        num_threads: None is the engine's own choice.
        cache_dir: as for Engine.
    """

    prompt_lengths: tuple[int, ...] = (512,)
    decode_lengths: tuple[int, ...] = (128,)
    depths: tuple[int, ...] = (0,)
    repetitions: int = 5
    num_threads: int | None = None
    cache_dir: str | None = None

    def __post_init__(self) -> None:
        for name, minimum in (
            ("prompt_lengths", 1),
            ("decode_lengths", 1),
            ("depths", 0),
        ):
            for value in getattr(self, name):
                check_count(name, value, minimum=minimum)
        check_count("repetitions", self.repetitions, minimum=1)
        if not self.depths or not (self.prompt_lengths or self.decode_lengths):
            raise InvalidArgumentError(
                "There is nothing to measure; give a prompt length or a number of new "
                "tokens, and a depth."
            )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One test.

    Attributes:
        name: as llama-bench writes it: pp512, tg128, "tg128 @ d256".
        num_tokens: tokens of one run.
        depth: entries in the cache before.
        seconds: of each counted run.
        first_token_s: seconds from the call to the first token, for prefill tests.
    """

    name: str
    num_tokens: int
    depth: int
    seconds: tuple[float, ...]
    first_token_s: tuple[float, ...] = ()

    @property
    def rates(self) -> list[float]:
        """Tokens per second of each run."""
        return [self.num_tokens / seconds for seconds in self.seconds]

    @property
    def mean(self) -> float:
        """Mean tokens per second."""
        return mean(self.rates)

    @property
    def deviation(self) -> float:
        """Standard deviation of the tokens per second; 0 for a single run."""
        return stdev(self.rates) if len(self.rates) > 1 else 0.0

    @property
    def median(self) -> float:
        """Median tokens per second."""
        return median(self.rates)

    @property
    def first_token_ms(self) -> float | None:
        """Median milliseconds to the first token."""
        return 1e3 * median(self.first_token_s) if self.first_token_s else None


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """What was measured.

    Attributes:
        model: path of the bundle.
        size_bytes: of the file.
        num_threads: threads of a model run.
        machine: where.
        rows: the tests.
        loads: one per fresh process, cache warm.
        steps: split of a decode step.
        samplers: of a large vocabulary.
    """

    model: str
    size_bytes: int
    num_threads: int
    machine: Machine
    rows: tuple[Row, ...]
    loads: tuple[LoadTimes, ...]
    steps: StepTimes
    samplers: SamplerTimes


def run_bench(
    path: Path,
    options: BenchOptions,
    progress: Callable[[str, float], None] = lambda stage, fraction: None,
) -> BenchResult:
    """Measure a bundle.

    Args:
        progress: called with the stage and how much of it is done.

    Raises:
        InvalidArgumentError: a test that does not fit the model's context.
        LiteRtLmError: the bundle cannot be run.
    """
    loads = _loads(path, options, progress)
    # Imported here, so that the child processes measure what imports cost.
    from litert_lm.bench.steps import measure_samplers, measure_steps
    from litert_lm.engine import Engine

    num_threads = loads[0].num_threads
    backend = Backend.CPU(thread_count=num_threads)
    # The same prompts come again and again, and are to be computed each time.
    with Engine(
        path, backend, cache_dir=options.cache_dir, prefix_cache_bytes=0
    ) as engine:
        _check_context(engine, options)
        rows = tuple(_rows(engine, options, progress))
        num_steps = min(_MAX_STEPS, engine.executor.context_length - _SHORT_PROMPT)
        steps = measure_steps(engine, _SHORT_PROMPT, num_steps)
    return BenchResult(
        model=str(path),
        size_bytes=path.stat().st_size,
        num_threads=num_threads,
        machine=Machine.this(),
        rows=rows,
        loads=loads,
        steps=steps,
        samplers=measure_samplers(),
    )


def _loads(
    path: Path, options: BenchOptions, progress: Callable[[str, float], None]
) -> tuple[LoadTimes, ...]:
    job = LoadJob(
        model_path=str(path),
        num_threads=options.num_threads,
        cache_dir=options.cache_dir,
        num_prompt_tokens=max(options.prompt_lengths, default=1),
        num_new_tokens=max(options.decode_lengths, default=1),
    )
    progress("loading", 0.0)
    warm = replace(job, num_prompt_tokens=1, num_new_tokens=1)
    measure_load(warm)  # fills the caches
    loads = []
    for number in range(options.repetitions):
        loads.append(measure_load(job))
        progress("loading", (number + 1) / options.repetitions)
    return tuple(loads)


def _check_context(engine: Engine, options: BenchOptions) -> None:
    lengths = (*options.prompt_lengths, *options.decode_lengths)
    # Beside the test's own tokens there are a prompt and an answer of one at least.
    longest = max(options.depths) + max(_SHORT_PROMPT, *lengths) + 2
    if longest > engine.executor.context_length:
        raise InvalidArgumentError(
            f"The tests need a context of {longest} tokens, and the model's holds "
            f"{engine.executor.context_length}; choose smaller -p, -n or -d."
        )


def _rows(
    engine: Engine, options: BenchOptions, progress: Callable[[str, float], None]
) -> Iterator[Row]:
    for depth in options.depths:
        for length in options.prompt_lengths:
            yield _row(engine, "pp", length, depth, options.repetitions, progress)
        for length in options.decode_lengths:
            yield _row(engine, "tg", length, depth, options.repetitions, progress)


def _row(
    engine: Engine,
    kind: str,
    count: int,
    depth: int,
    repetitions: int,
    progress: Callable[[str, float], None],
) -> Row:
    name = f"{kind}{count}" + (f" @ d{depth}" if depth else "")
    is_prefill = kind == "pp"
    # The last token of a prompt stays pending, and so does that of an earlier answer.
    num_ids = (count if depth else count + 1) if is_prefill else 1
    ids = prompt_ids(num_ids, engine.executor.vocab_size)
    times = []
    for number in range(repetitions + 1):
        with new_session(engine, depth) as session:
            times.append(answer(session, ids, 1 if is_prefill else count))
        progress(name, (number + 1) / (repetitions + 1))
    counted = times[1:]
    return Row(
        name=name,
        num_tokens=count,
        depth=depth,
        seconds=tuple(t.prefill_s if is_prefill else t.decode_s for t in counted),
        first_token_s=tuple(t.first_token_s for t in counted) if is_prefill else (),
    )
