"""The queue for calls of the model: one at a time, first come, first served.

While nobody waits a turn is the plain lock `lock`. Who finds it taken stands in line,
and only the first of the line waits for the lock itself, so that who gave it up and
wants it again comes after all others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["CallQueue", "Waiter"]

_STALE_SECONDS = 0.5  # after which who leads the line without a turn is not there


class Waiter:
    """Somebody who stands in line; told by `nudge` to look whether it is first."""

    def __init__(self) -> None:
        self._nudge = threading.Lock()
        self._nudge.acquire()

    def nudge(self) -> None:
        """Called with the line's own lock held."""
        if self._nudge.locked():
            self._nudge.release()

    def wait(self, seconds: float) -> bool:
        """Wait for a nudge; False when none came."""
        return self._nudge.acquire(timeout=seconds)


class CallQueue:
    """A line of those who want to call the model.

    Attributes:
        lock: held during a turn. It may be taken at once while `is_free`.
        line: who waits for a turn, the first one first; one list for good.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.line: list[Waiter] = []
        self._line_lock = threading.Lock()
        self._watcher: Waiter | None = None

    @property
    def is_free(self) -> bool:
        """Whether a turn can begin without standing in line."""
        return not (self.line or self.lock.locked())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, which lasts as long as the context."""
        waiter = Waiter()
        try:
            if not self.is_free:
                self.stand(waiter)
            with self.lock:
                self.leave(waiter)
                yield
        finally:
            self.leave(waiter)

    def stand(
        self, waiter: Waiter, is_done: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait in line until first, or until `is_done`; the waiter stays in line."""
        with self._line_lock:
            self.line.append(waiter)
            if self._watcher is not None:
                self._watcher.nudge()
        while not is_done() and self._is_behind(waiter):
            if not waiter.wait(_STALE_SECONDS):
                self._skip_stale()

    def leave(self, *waiters: Waiter) -> None:
        """Take waiters out of the line, if they are in it."""
        if not self.line:
            return
        with self._line_lock:
            for waiter in waiters:
                if waiter in self.line:
                    self.line.remove(waiter)
                    waiter.nudge()
            if self.line:
                self.line[0].nudge()

    def watch(self, waiter: Waiter, seconds: float) -> None:
        """Wait for somebody to come, in a turn of `waiter`."""
        self._watcher = waiter
        try:
            waiter.wait(seconds)
        finally:
            self._watcher = None

    def waiting(self) -> list[Waiter]:
        """Who stands in line now, the first one first."""
        with self._line_lock:
            return list(self.line)

    def _is_behind(self, waiter: Waiter) -> bool:
        with self._line_lock:
            return waiter in self.line and self.line[0] is not waiter

    def _skip_stale(self) -> None:
        """Take out a first one that has no turn: Ctrl-C ended it before it left."""
        with self._line_lock:
            if self.line and not self.lock.locked():
                del self.line[0]
                if self.line:
                    self.line[0].nudge()
