"""Where the time of a decode step goes: model, sampler, text, Python around them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from litert_lm.bench.timing import CallMarks, replaced
from litert_lm.bench.workload import new_session, prompt_ids
from litert_lm.executor.native import runtime
from litert_lm.generate import answers
from litert_lm.generate.stream import OutputText
from litert_lm.sampling.sampler import Sampler, make_sampler

if TYPE_CHECKING:
    from litert_lm.engine import Engine

__all__ = ["SamplerTimes", "StepTimes", "measure_samplers", "measure_steps"]

_LARGE_VOCABULARY = 262_144
_ROUNDS = 101


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Medians over the steps of one greedy answer, in microseconds.

    Attributes:
        native_us: LiteRT's runs of the model.
        sampler_us: from logits to a token id.
        python_us: the rest of the step, without the two below.
        detokenize_us: from token id to text, stops included.
        chunk_us: building the response and handing it to the caller.
    """

    native_us: float
    sampler_us: float
    python_us: float
    detokenize_us: float
    chunk_us: float


@dataclass(frozen=True, kw_only=True)
class SamplerTimes:
    """Medians of one draw from a vocabulary of 262,144, in microseconds.

    Attributes:
        greedy_us: temperature 0.
        top_k_top_p_us: temperature 0.8, top_k 40, top_p 0.95.
    """

    greedy_us: float
    top_k_top_p_us: float


def measure_steps(engine: Engine, num_prompt_tokens: int, num_steps: int) -> StepTimes:
    """Time `num_steps` >= 2 steps behind a prompt."""
    ids = prompt_ids(num_prompt_tokens, engine.executor.vocab_size)
    _steps(engine, ids, num_steps)  # warms up, as before any other test
    steps = _steps(engine, ids, num_steps)
    # The first step binds buffers, so it tells nothing about the others.
    medians = np.median(np.array(steps[1:]), axis=0) * 1e6
    names = ("native_us", "sampler_us", "python_us", "detokenize_us", "chunk_us")
    return StepTimes(**dict(zip(names, medians.tolist(), strict=True)))


def _steps(
    engine: Engine, token_ids: list[int], num_steps: int
) -> list[tuple[float, ...]]:
    with _marked(engine) as times:
        stream = new_session(engine).generate_stream(
            token_ids, max_new_tokens=num_steps, ignore_eos=True, temperature=0.0
        )
        next(stream)
        return [_step(stream, times) for _ in range(num_steps)]


def _step(stream: Iterator[object], times: list[float]) -> tuple[float, ...]:
    times.clear()
    begin = time.perf_counter()
    next(stream)
    end = time.perf_counter()
    # The model's calls come first, however many they are.
    *_, sampled, drawn, pushed, written = times
    native = sum(times[1:-4:2]) - sum(times[:-4:2])
    sampler, text, chunk = drawn - sampled, written - pushed, end - written
    return native, sampler, end - begin - native - sampler - text - chunk, text, chunk


@contextmanager
def _marked(engine: Engine) -> Iterator[list[float]]:
    """Begin and end of all calls that are told apart.

    In one list: each further one would cost time in the step.
    """
    marks = CallMarks()

    def make_marked_sampler(**options: object) -> Sampler:
        return marks.wrap(make_sampler(**options))  # type: ignore[arg-type]

    library = runtime.litert(engine.backend.get_name() != "cpu")
    with ExitStack() as stack:
        for owner, name, value in (
            (answers, "make_sampler", make_marked_sampler),
            (library, "run", marks.wrap(library.run)),
            (OutputText, "push", marks.wrap(OutputText.push)),
        ):
            stack.enter_context(replaced(owner, name, value))
        yield marks.times


def measure_samplers() -> SamplerTimes:
    """Time the samplers on logits like those of a model."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, _LARGE_VOCABULARY).astype(np.float32)
    greedy = make_sampler(temperature=0.0)
    drawing = make_sampler(temperature=0.8, top_k=40, top_p=0.95, rng=rng)
    return SamplerTimes(
        greedy_us=_median_us(greedy, logits),
        top_k_top_p_us=_median_us(drawing, logits),
    )


def _median_us(sampler: Sampler, logits: npt.NDArray[np.float32]) -> float:
    times = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        sampler(logits)
        times.append(time.perf_counter() - begin)
    return median(times) * 1e6
