"""Steps of several sequences at once are those of each alone, or are not taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert_lm.bundle import open_bundle
from litert_lm.convert import convert
from litert_lm.errors import ExecutionError, SessionStateError
from litert_lm.executor.executor import Executor
from litert_lm.executor.opening import ExecutorOptions, known_facts
from litert_lm.executor.probe import examine
from tests.convert.toys import Toy, write_folder


@pytest.fixture(scope="module", params=["f32", "int8", "int4"])
def converted(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted toy, with a batch step of four sequences."""
    folder = tmp_path_factory.mktemp("batch")
    source = write_folder(folder / "toy", Toy())
    convert(source, folder / "toy.litertlm", weights=request.param)
    return folder / "toy.litertlm"


@pytest.fixture
def executor(converted: Path, open_model: Callable[..., Executor]) -> Executor:
    opened = open_model(converted, costs={"decode": 1e-3, "decode_batch_4": 1.5e-3})
    if opened.max_batch == 0:
        pytest.skip("sums of several rows are rounded in another way here")
    return opened


def started(executor: Executor, number: int) -> Any:
    """A cache with a prompt of its own length."""
    cache = executor.new_cache()
    executor.prefill(cache, ids_of(number, 5 + 11 * number))
    return cache


def ids_of(number: int, count: int) -> list[int]:
    return np.random.default_rng(number).integers(0, 277, count).tolist()


def alone(executor: Executor, number: int, count: int, cache: Any = None) -> list[Any]:
    """Logits of steps, which nobody shares where no others run."""
    cache = cache or started(executor, number)
    return [executor.decode(cache, i).copy() for i in ids_of(number, count)]


def at_once(executor: Executor, run: Callable[[int], Any], count: int) -> list[Any]:
    """Results of threads that all wait for a turn before the first one gets it."""
    with ThreadPoolExecutor(count) as pool:
        with executor.turn():
            futures = [pool.submit(run, number) for number in range(count)]
            while len(executor._queue.waiting()) < count:
                time.sleep(0.001)
        return [future.result(60) for future in futures]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_rows_are_as_alone(executor: Executor, size: int) -> None:
    expected = [alone(executor, number, 6) for number in range(size)]
    caches = [started(executor, number) for number in range(size)]
    for step in range(6):
        ids = [ids_of(number, 6)[step] for number in range(size)]
        for found, each in zip(
            executor.decode_together(caches, ids), expected, strict=True
        ):
            assert np.array_equal(found, each[step])


def test_single_steps_go_on_after_shared_ones(executor: Executor) -> None:
    expected = alone(executor, 1, 4)
    cache, other = started(executor, 1), started(executor, 2)
    ids = ids_of(1, 4)
    executor.decode_together([cache, other], [ids[0], 7])
    executor.decode(cache, ids[1])
    executor.decode_together([other, cache], [9, ids[2]])
    assert np.array_equal(executor.decode(cache, ids[3]), expected[3])


def test_threads_share_steps(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 30
    expected = [alone(executor, number, count) for number in range(6)]
    shared: Any = executor._shared
    sizes, together = [], shared._decode_together

    def counting(caches: Any, ids: Any) -> Any:
        sizes.append(len(caches))
        return together(caches, ids)

    monkeypatch.setattr(shared, "_decode_together", counting)
    caches = [started(executor, number) for number in range(6)]
    found = at_once(executor, lambda n: alone(executor, n, count, caches[n]), 6)
    assert max(sizes) == 4
    assert all(map(np.array_equal, found, expected))


def test_an_error_of_a_shared_step_meets_nobody_else(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others take the step again, by themselves."""
    shared: Any = executor._shared
    together, errors = shared._decode_together, iter([ExecutionError("once")])

    def failing(caches: Any, ids: Any) -> Any:
        logits = together(caches, ids)
        for error in errors:
            raise error
        return logits

    def run(number: int) -> Any:
        try:
            return alone(executor, number, 20, caches[number])
        except ExecutionError as error:
            return str(error)

    expected = [alone(executor, number, 20) for number in range(4)]
    caches = [started(executor, number) for number in range(4)]
    monkeypatch.setattr(shared, "_decode_together", failing)
    found = at_once(executor, run, 4)
    assert [each for each in found if isinstance(each, str)] == ["once"]
    for each, wanted in zip(found, expected, strict=True):
        assert isinstance(each, str) or np.array_equal(each, wanted)


def test_steps_are_not_shared_where_that_is_no_faster(
    converted: Path, open_model: Callable[..., Any]
) -> None:
    executor = open_model(converted, costs={"decode": 1e-3, "decode_batch_4": 4.1e-3})
    assert executor._shared is None


def test_inexact_rows_are_not_used(
    converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = Executor.decode_together

    def inexact(self: Executor, *arguments: Any) -> Any:
        rows = exact(self, *arguments)
        return [*rows[:-1], np.nextafter(rows[-1], np.float32(np.inf))]

    monkeypatch.setattr(Executor, "decode_together", inexact)
    options = ExecutorOptions(num_threads=1, cache_dir=str(tmp_path))
    assert known_facts(open_bundle(converted), options, examine).batch_keys == ()


def test_a_closed_executor_refuses(executor: Executor) -> None:
    caches = [started(executor, number) for number in range(2)]
    executor.close()
    with pytest.raises(SessionStateError, match="closed"):
        executor.decode_together(caches, [1, 2])


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_a_step_of_each_in_few_calls(executor: Executor, count: int) -> None:
    expected = [alone(executor, number, 8) for number in range(count)]
    caches = [started(executor, number) for number in range(count)]
    for step in range(8):
        ids = [ids_of(number, 8)[step] for number in range(count)]
        found = executor.decode_each(caches, ids)
        for number in range(count):
            assert np.array_equal(found[number], expected[number][step])
