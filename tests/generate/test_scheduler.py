"""Who may run, who waits, and who leaves."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from litert_lm.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    QueueFullError,
)
from litert_lm.generate.scheduler import Scheduler


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "nothing happened for 10 s"
        time.sleep(0.001)


def queue(
    pool: ThreadPoolExecutor, scheduler: Scheduler, work: Any, **options: Any
) -> Future[Any]:
    """Let a request wait in a thread; `work` is called when it runs."""
    before = scheduler.num_waiting

    def request() -> Any:
        with scheduler.admit(**options) as admission:
            return work(admission)

    future = pool.submit(request)
    until(lambda: scheduler.num_waiting > before or future.done())
    return future


def test_without_limits_all_run_at_once() -> None:
    scheduler = Scheduler()
    with scheduler.admit(), scheduler.admit(5):
        assert (scheduler.num_running, scheduler.num_waiting) == (2, 0)
    assert (scheduler.num_running, scheduler.num_admitted) == (0, 2)


def test_the_others_run_by_priority_and_then_arrival(pool: ThreadPoolExecutor) -> None:
    scheduler, order = Scheduler(max_running=1), []
    with scheduler.admit():
        waiting = [
            queue(pool, scheduler, lambda _, n=n: order.append(n), priority=priority)
            for n, priority in enumerate([0, 3, -1, 0, 3, -1])
        ]
    for future in waiting:
        future.result(10)
    assert order == [2, 5, 0, 3, 1, 4]


def test_a_newcomer_does_not_overtake_who_waits(pool: ThreadPoolExecutor) -> None:
    scheduler, order = Scheduler(max_running=1), []
    first = scheduler.admit().__enter__()
    waiting = [queue(pool, scheduler, lambda _: order.append("waiting"))]
    first.__exit__()
    with scheduler.admit():
        order.append("newcomer")
    waiting[0].result(10)
    assert order == ["waiting", "newcomer"]


def test_a_full_queue_refuses(pool: ThreadPoolExecutor) -> None:
    scheduler = Scheduler(max_running=1, max_waiting=1)
    with scheduler.admit():
        waiting = queue(pool, scheduler, lambda _: "answered")
        with pytest.raises(QueueFullError, match="1 requests run and 1 wait"):
            scheduler.admit(-9).__enter__()
    assert waiting.result(10) == "answered"
    assert (scheduler.num_refused, scheduler.num_running) == (1, 0)
    assert (QueueFullError.grpc_status, QueueFullError.http_status) == (
        "RESOURCE_EXHAUSTED",
        429,
    )


def test_a_queue_of_none_still_runs_what_has_room() -> None:
    scheduler = Scheduler(max_running=2, max_waiting=0)
    with scheduler.admit(), scheduler.admit(), pytest.raises(QueueFullError):
        scheduler.admit().__enter__()
    with scheduler.admit() as admission:
        assert admission.seconds_waited == 0.0


@pytest.mark.parametrize("is_told", [True, False])
def test_a_cancelled_request_leaves_the_queue(
    pool: ThreadPoolExecutor, is_told: bool
) -> None:
    scheduler, cancelled = Scheduler(max_running=1), threading.Event()
    with scheduler.admit():
        waiting = queue(pool, scheduler, print, is_cancelled=cancelled.is_set)
        cancelled.set()
        if is_told:
            scheduler.wake()
        with pytest.raises(CancelledError):
            waiting.result(10)
        assert (scheduler.num_waiting, scheduler.num_left) == (0, 1)
    assert scheduler.num_running == 0


def test_a_request_leaves_at_its_deadline(pool: ThreadPoolExecutor) -> None:
    scheduler = Scheduler(max_running=1)
    with scheduler.admit():
        begin = time.monotonic()
        waiting = queue(pool, scheduler, print, deadline=begin + 0.05)
        with pytest.raises(DeadlineExceededError, match="time was over"):
            waiting.result(10)
        assert 0.05 <= time.monotonic() - begin < 5
        assert scheduler.num_waiting == 0
    assert DeadlineExceededError.grpc_status == "DEADLINE_EXCEEDED"


def test_who_leaves_the_queue_lets_the_next_one_run(pool: ThreadPoolExecutor) -> None:
    scheduler, cancelled = Scheduler(max_running=1), threading.Event()
    with scheduler.admit():
        gone = queue(pool, scheduler, print, is_cancelled=cancelled.is_set)
        waiting = queue(pool, scheduler, lambda _: "answered")
        cancelled.set()
        scheduler.wake()
        assert isinstance(gone.exception(10), CancelledError)
        assert not waiting.done()
    assert waiting.result(10) == "answered"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, GeneratorExit])
def test_errors_free_the_place(error: type[BaseException]) -> None:
    scheduler = Scheduler(max_running=1, max_waiting=0)
    with pytest.raises(error), scheduler.admit():
        raise error
    with scheduler.admit():
        assert scheduler.num_running == 1


def test_a_leave_that_ctrl_c_swallowed_comes_later(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(max_running=1)
    admission = scheduler.admit()
    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "_leave", lambda _: None)
        with admission:
            waiting = queue(pool, scheduler, lambda _: "answered")
    assert scheduler.num_running == 1
    del admission
    assert waiting.result(10) == "answered"
    assert scheduler.num_running == 0


def test_a_cancellation_that_raises_frees_the_place(pool: ThreadPoolExecutor) -> None:
    scheduler = Scheduler(max_running=1)
    with scheduler.admit():
        waiting = queue(pool, scheduler, print, is_cancelled=lambda: bool(1 // 0))
        assert isinstance(waiting.exception(10), ZeroDivisionError)
    assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)


def test_a_generator_may_be_closed_in_another_thread(pool: ThreadPoolExecutor) -> None:
    scheduler = Scheduler(max_running=1)

    def answer() -> Iterator[int]:
        with scheduler.admit():
            yield from range(9)

    generator: Any = answer()
    next(generator)
    waiting = queue(pool, scheduler, lambda _: "answered")
    pool.submit(generator.close).result(10)
    assert waiting.result(10) == "answered"


def test_the_wait_is_measured(pool: ThreadPoolExecutor) -> None:
    scheduler = Scheduler(max_running=1)
    with scheduler.admit():
        waiting = queue(pool, scheduler, lambda admission: admission.seconds_waited)
        time.sleep(0.02)
    assert waiting.result(10) >= 0.02


def test_check_tells_a_running_request_to_end() -> None:
    cancelled = threading.Event()
    with Scheduler().admit(is_cancelled=cancelled.is_set) as admission:
        admission.check()
        cancelled.set()
        with pytest.raises(CancelledError):
            admission.check()
    late = Scheduler().admit(deadline=time.monotonic() - 1)
    with late, pytest.raises(DeadlineExceededError):
        late.check()


@pytest.mark.parametrize(
    "limits", [{"max_running": 0}, {"max_waiting": -1}, {"max_running": 1.5}]
)
def test_wrong_limits(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(limits))):
        Scheduler(**limits)


def test_nobody_is_lost_among_many(pool: ThreadPoolExecutor) -> None:
    scheduler, most, chance = Scheduler(max_running=3), [], random.Random(5)
    outcomes = [chance.choice(["run", "fail", "cancel", "late"]) for _ in range(300)]

    def request(outcome: str) -> str:
        end = time.monotonic() + 0.001 if outcome == "late" else None
        is_cancelled = (lambda: True) if outcome == "cancel" else None
        try:
            with scheduler.admit(0, is_cancelled=is_cancelled, deadline=end):
                most.append(scheduler.num_running)
                time.sleep(0.0005)
                if outcome == "fail":
                    raise ZeroDivisionError
        except (ZeroDivisionError, CancelledError, DeadlineExceededError):
            return "ended"
        return "ended"

    assert set(pool.map(request, outcomes, timeout=60)) == {"ended"}
    assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)
    assert max(most) == 3
    assert scheduler.num_admitted + scheduler.num_left == 300
