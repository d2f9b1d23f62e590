"""From a thread that makes items to the coroutine that sends them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["Channel"]

T = TypeVar("T")


class Channel(Generic[T]):
    """Items of one thread for one coroutine, which takes all that wait at once.

    The thread pays for a wake-up only when the coroutine waits. Made inside the loop.

    Args:
        max_bytes: the thread waits while more than this waits to be taken.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._items: list[T] = []
        self._num_bytes = 0
        self._is_awaited = False
        self._is_ended = False
        self._is_closed = False
        self._error: BaseException | None = None

    def put(self, item: T, num_bytes: int) -> None:
        """Add an item; drops it once the channel is closed. For the thread."""
        with self._lock:
            while self._num_bytes > self._max_bytes and not self._is_closed:
                self._room.wait()
            if self._is_closed:
                return
            self._items.append(item)
            self._num_bytes += num_bytes
            is_awaited, self._is_awaited = self._is_awaited, False
        if is_awaited:
            self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """No more items, because of `error` if there was one. For the thread."""
        with self._lock:
            self._is_ended, self._error = True, error
        self._wake()

    async def take(self) -> list[T]:
        """All items that wait, at least one; none when there will be no more.

        Raises:
            the error that ended the items, after the last of them.
        """
        while True:
            with self._lock:
                if self._items or self._is_ended:
                    return self._taken()
                self._is_awaited = True
                self._ready.clear()
            await self._ready.wait()

    def close(self) -> None:
        """Nothing is taken any more; the thread no longer waits."""
        with self._lock:
            self._is_closed = True
            self._items, self._num_bytes = [], 0
            self._room.notify()

    def _taken(self) -> list[T]:
        items, self._items = self._items, []
        self._num_bytes = 0
        self._room.notify()
        if not items and self._error is not None:
            raise self._error
        return items

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the client
            self._loop.call_soon_threadsafe(self._ready.set)
