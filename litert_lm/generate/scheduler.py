"""Which requests may run, and in which order the others wait.

How the running ones share the model is the executor's matter, call by call.
"""

from __future__ import annotations

import threading
import time
import weakref
from bisect import insort
from collections.abc import Callable
from itertools import count

from litert_lm.config import check_count
from litert_lm.errors import (
    CancelledError,
    DeadlineExceededError,
    QueueFullError,
)

__all__ = ["Admission", "Scheduler"]

_LOOK_SECONDS = 0.1  # how late a cancellation that nobody told of may be seen
_NUDGED_SECONDS = 1.0  # the same for what nudges, should Ctrl-C have swallowed one


class Scheduler:
    """Admits requests, by (priority, arrival) where not all may run at once.

    Args:
        max_running: requests that run at once; None for no limit.
        max_waiting: requests that wait for that; None for no limit, 0 refuses all that
            cannot run at once.

    Attributes:
        max_running, max_waiting: as above.
        num_admitted: requests that were let run so far.
        num_refused: requests that found the queue full.
        num_left: requests that were cancelled or ran out of time while waiting.
    """

    def __init__(
        self, *, max_running: int | None = None, max_waiting: int | None = None
    ) -> None:
        check_count("max_running", max_running, minimum=1)
        check_count("max_waiting", max_waiting, minimum=0)
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.num_admitted = 0
        self.num_refused = 0
        self.num_left = 0
        # Re-entrant: the garbage collector may end an abandoned request's generator,
        # and with it the request, while this thread is in here.
        self._lock = threading.RLock()
        self._arrivals = count()
        # Ctrl-C may swallow a request's leave; then it leaves when it is collected.
        self._running: weakref.WeakSet[Admission] = weakref.WeakSet()
        self._waiting: list[Admission] = []

    @property
    def num_running(self) -> int:
        """Requests that run now."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests that wait now."""
        return len(self._waiting)

    def admit(
        self,
        priority: int = 0,
        *,
        is_cancelled: Callable[[], bool] | None = None,
        deadline: float | None = None,
    ) -> Admission:
        """A context manager that waits until the request may run.

        Args:
            priority: lower runs earlier; equal ones run in order of arrival, which is
                when the context is entered.
            is_cancelled: asked while waiting, at once after `wake`, else a few times a
                second.
            deadline: on the clock of `time.monotonic`, in seconds.

        The context raises on entering:
            QueueFullError: it would have to wait behind `max_waiting` others.
            CancelledError, DeadlineExceededError: while waiting.
        """
        return Admission(self, priority, is_cancelled, deadline)

    def wake(self) -> None:
        """Have all waiting requests look now whether they are cancelled."""
        with self._lock:
            for admission in self._waiting:
                admission.nudge()

    def _enter(self, admission: Admission) -> None:
        """Let run, or put into the queue."""
        with self._lock:
            self._let_in()
            admission.key = (admission.priority, next(self._arrivals))
            if not self._waiting and self._has_room():
                self.num_admitted += 1
                self._running.add(admission)
                return
            if self.max_waiting is not None:
                self._check_queue(self.max_waiting)
            insort(self._waiting, admission, key=_sort_key)

    def _check_queue(self, max_waiting: int) -> None:
        if len(self._waiting) >= max_waiting:
            self.num_refused += 1
            raise QueueFullError(
                f"{len(self._running)} requests run and {len(self._waiting)} wait, "
                f"which is the most allowed ({max_waiting} waiting); try again later."
            )

    def _leave(self, admission: Admission) -> None:
        """Forget a request wherever it is, and let others take its place."""
        with self._lock:
            if admission in self._waiting:
                self.num_left += 1
                self._waiting.remove(admission)
            self._running.discard(admission)
            self._let_in()

    def _let_in(self) -> None:
        """Have those run that wait, as far as there is room."""
        with self._lock:
            while self._waiting and self._has_room():
                following = self._waiting[0]
                # In this order nobody is lost, whatever interrupts it.
                self._running.add(following)
                if following in self._waiting:
                    self._waiting.remove(following)
                    self.num_admitted += 1
                following.nudge()

    def _has_room(self) -> bool:
        return self.max_running is None or len(self._running) < self.max_running


class Admission:
    """One request at the scheduler, made by `Scheduler.admit`.

    It may be left by another thread than the one that entered it.

    Attributes:
        priority: as given.
        key: its place in the queue, lower first: priority, then arrival.
        seconds_waited: how long it was in the queue.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        priority: int,
        is_cancelled: Callable[[], bool] | None,
        deadline: float | None,
    ) -> None:
        self.priority = priority
        self.key = (priority, 0)
        self.seconds_waited = 0.0
        self._scheduler = scheduler
        self._is_cancelled = is_cancelled
        self._deadline = deadline
        self._nudge = threading.Lock()
        self._nudge.acquire()

    def __enter__(self) -> Admission:
        try:
            self._scheduler._enter(self)
            if not self._is_running():
                self._wait()
        except BaseException:
            self._scheduler._leave(self)
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._scheduler._leave(self)

    def check(self) -> None:
        """Raise CancelledError or DeadlineExceededError when it is to end."""
        if self._is_cancelled is not None and self._is_cancelled():
            raise CancelledError("The request was cancelled.")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise DeadlineExceededError(
                "The request's time was over before it was answered; allow more time."
            )

    def nudge(self) -> None:
        """Have the thread that waits look again; called by one thread at a time."""
        if self._nudge.locked():
            self._nudge.release()

    def _wait(self) -> None:
        begin = time.monotonic()
        try:
            while not self._is_running():
                self.check()
                self._nudge.acquire(timeout=self._patience())
                self._scheduler._let_in()
        finally:
            self.seconds_waited = time.monotonic() - begin

    def _patience(self) -> float:
        """Seconds until it must look again though nobody nudged."""
        seconds = _NUDGED_SECONDS if self._is_cancelled is None else _LOOK_SECONDS
        if self._deadline is None:
            return seconds
        return max(0.0, min(seconds, self._deadline - time.monotonic()))

    def _is_running(self) -> bool:
        return self in self._scheduler._running


def _sort_key(admission: Admission) -> tuple[int, int]:
    return admission.key
