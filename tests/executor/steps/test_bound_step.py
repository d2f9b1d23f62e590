"""Steps that are bound to their arrays give what steps through all layers give."""

from __future__ import annotations

import functools
import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert_lm.convert import convert
from litert_lm.errors import ContextFullError, SessionStateError
from litert_lm.executor.executor import Executor
from litert_lm.executor.steps.batch_runner import BatchRunner
from tests.convert.toys import Toy, write_folder
from tests.interruption import is_interrupted

PROMPT = [3, 8, 13, 18, 6, 11]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted toy with a context of 256, whose caches grow once."""
    folder = tmp_path_factory.mktemp("bound")
    source = write_folder(folder / "toy", Toy())
    convert(source, folder / "toy.litertlm", weights="f32")
    return folder / "toy.litertlm"


@pytest.fixture
def executor(open_model: Callable[..., Executor], converted: Path) -> Executor:
    return open_model(converted)


def started(executor: Executor, prompt: list[int]) -> Any:
    """A cache whose next step is bound, if steps of this model can be."""
    cache = executor.new_cache()
    executor.prefill(cache, prompt)
    executor.decode(cache, 5)
    return cache


def steps(executor: Executor, cache: Any, count: int, *, is_bound: bool) -> list[Any]:
    found = []
    for number in range(count):
        if not is_bound:
            cache.step = None
        found.append(executor.decode(cache, 3 + number % 40).copy())
    return found


def test_bound_steps_give_the_same_logits_while_the_cache_grows(
    executor: Executor,
) -> None:
    count = executor.context_length - len(PROMPT) - 1
    assert len(executor.cache_lengths) > 1
    unbound = steps(executor, started(executor, PROMPT), count, is_bound=False)
    cache = started(executor, PROMPT)
    assert cache.step is not None
    np.testing.assert_array_equal(steps(executor, cache, count, is_bound=True), unbound)
    with pytest.raises(ContextFullError):
        executor.decode(cache, 3)


def test_sequences_of_other_lengths_take_turns(executor: Executor) -> None:
    prompts = [PROMPT, PROMPT * (executor.cache_lengths[0] // len(PROMPT) + 1)]
    expected = [
        steps(executor, started(executor, prompt), 9, is_bound=False)
        for prompt in prompts
    ]
    caches = [started(executor, prompt) for prompt in prompts]
    assert caches[0].length != caches[1].length
    found: list[list[Any]] = [[], []]
    for number in range(9):
        for cache, logits in zip(caches, found, strict=True):
            logits.append(executor.decode(cache, 3 + number).copy())
    np.testing.assert_array_equal(found, expected)


def test_a_rewound_cache_goes_on(executor: Executor) -> None:
    cache = started(executor, PROMPT)
    first = steps(executor, cache, 5, is_bound=True)
    cache.rewind(cache.num_tokens - 5)
    np.testing.assert_array_equal(steps(executor, cache, 5, is_bound=True), first)


def test_a_bound_step_waits_for_its_turn(executor: Executor) -> None:
    cache, done = started(executor, PROMPT), []
    with executor.turn():
        thread = threading.Thread(target=lambda: done.append(executor.decode(cache, 3)))
        thread.start()
        thread.join(0.05)
        assert not done
    thread.join()
    assert len(done) == 1


def test_a_failed_step_is_not_counted(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = steps(executor, started(executor, PROMPT), 3, is_bound=False)
    cache = started(executor, PROMPT)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(type(cache), "__setattr__", lambda *_: 1 / 0)
        executor.decode(cache, 3)
    np.testing.assert_array_equal(steps(executor, cache, 3, is_bound=True), expected)


def test_ctrl_c_between_a_masks_change_and_its_note(executor: Executor) -> None:
    count = len(PROMPT) + 5
    expected = steps(executor, started(executor, PROMPT), count, is_bound=False)
    cache = started(executor, PROMPT)
    steps(executor, cache, 5, is_bound=True)
    assert is_interrupted(
        lambda: executor.decode(cache, 3),
        lambda file, text: text.startswith("mask.open_until = "),
    )
    cache.rewind(cache.num_tokens - 5)
    found = steps(executor, cache, count, is_bound=True)
    np.testing.assert_array_equal(found, expected)


def test_who_stands_in_line_comes_first(executor: Executor) -> None:
    cache, other, order = started(executor, PROMPT), executor.new_cache(), []

    def prefill() -> None:
        noted = lambda done, total: order.append("prefill")  # noqa: E731
        executor.prefill(other, PROMPT, progress=noted)

    with executor.turn():
        thread = threading.Thread(target=prefill)
        thread.start()
        while not executor._queue.line:
            time.sleep(0.001)
    executor.decode(cache, 3)
    order.append("step")
    thread.join()
    assert order[0] == "prefill"


def test_bound_steps_of_two_threads_are_shared(
    open_model: Callable[..., Executor],
    converted: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = {"decode": 1e-3, "decode_batch_4": 1.1e-3}
    executor, shared = open_model(converted, costs=costs), []
    if not executor.max_batch:
        pytest.skip("sums of several rows are rounded in another way here")
    real = BatchRunner.decode

    def decode(runner: BatchRunner, caches: Any, token_ids: Any) -> Any:
        shared.append(len(caches))
        return real(runner, caches, token_ids)

    monkeypatch.setattr(BatchRunner, "decode", decode)
    caches = [started(executor, PROMPT) for _ in range(2)]
    assert all(cache.step is not None for cache in caches)
    run = functools.partial(steps, executor, count=30, is_bound=True)
    with ThreadPoolExecutor(2) as pool:
        with executor.turn():
            found = [pool.submit(run, cache) for cache in caches]
            while len(executor._queue.line) < 2:
                time.sleep(0.001)
        results = [each.result() for each in found]
    assert shared.count(2) > 10
    np.testing.assert_array_equal(results[0], results[1])


def test_a_closed_executor_says_so(executor: Executor) -> None:
    cache = started(executor, PROMPT)
    executor.close()
    with pytest.raises(SessionStateError, match="closed"):
        executor.decode(cache, 3)


def test_memory_goes_with_its_cache(executor: Executor) -> None:
    """Caches are large: they must not wait for the garbage collector."""
    cache = started(executor, PROMPT)
    gone = weakref.ref(cache)
    gc.disable()
    try:
        del cache
        assert gone() is None
    finally:
        gc.enable()
