"""First come, first served."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from litert_lm.executor.steps.call_queue import CallQueue, Waiter


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "nothing happened for 10 s"
        time.sleep(0.001)


def line_up(
    pool: ThreadPoolExecutor,
    queue: CallQueue,
    count: int,
    work: Callable[[int], object],
) -> list[Future[None]]:
    """Let threads wait for a turn, one after another; `work` is called in it."""

    def wait(number: int) -> None:
        with queue.turn():
            work(number)

    futures = []
    for number in range(count):
        futures.append(pool.submit(wait, number))
        until(lambda: len(queue.waiting()) == len(futures))
    return futures


def test_turns_come_in_the_order_of_arrival(pool: ThreadPoolExecutor) -> None:
    queue, order = CallQueue(), []
    with queue.turn():
        waiting = line_up(pool, queue, 5, order.append)
    for future in waiting:
        future.result(10)
    assert order == [0, 1, 2, 3, 4]
    assert queue.is_free


def test_who_wants_another_turn_comes_after_the_others(
    pool: ThreadPoolExecutor,
) -> None:
    queue, order = CallQueue(), []
    with queue.turn():
        waiting = line_up(pool, queue, 3, order.append)
    with queue.turn():
        order.append(9)
    for future in waiting:
        future.result(10)
    assert order == [0, 1, 2, 9]


def test_one_at_a_time(pool: ThreadPoolExecutor) -> None:
    queue, inside, most = CallQueue(), [], []

    def work(number: int) -> None:
        for _ in range(200):
            with queue.turn():
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    list(pool.map(work, range(8), timeout=60))
    assert max(most) == 1
    assert queue.is_free


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_ends_the_turn(error: type[BaseException]) -> None:
    queue = CallQueue()
    with pytest.raises(error), queue.turn():
        raise error
    assert queue.is_free


def test_an_interrupted_wait_leaves_the_line(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = CallQueue()

    def interrupted(place: Waiter, seconds: float) -> bool:
        raise KeyboardInterrupt

    with queue.turn():
        waiting = line_up(pool, queue, 1, print)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Waiter, "wait", interrupted)
            with queue.turn():
                pass
        assert len(queue.waiting()) == 1
    waiting[0].result(10)
    assert queue.is_free


def test_a_place_that_was_left_behind_holds_nobody_up() -> None:
    queue, done = CallQueue(), threading.Event()
    queue.stand(Waiter())  # and never a turn

    def work() -> None:
        with queue.turn():
            done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(10)
