"""From threads that make items to the coroutines that send them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["Bell", "Channel"]

T = TypeVar("T")


class Bell:
    """Sets events of an event loop from other threads. Made inside the loop.

    Waking a loop is a system call, in which the interpreter lock changes hands: the
    caller then waits until the loop is done. A thread between them makes that wait, and
    the caller goes on at once.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[asyncio.Event | None] = SimpleQueue()
        thread = threading.Thread(target=self._run, name="litert-lm-bell", daemon=True)
        thread.start()

    def ring(self, event: asyncio.Event) -> None:
        """Set the event soon."""
        self._queue.put(event)

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it its clients
                self._loop.call_soon_threadsafe(event.set)


class Channel(Generic[T]):
    """Items of one thread for one coroutine, which takes all that wait at once.

    Args:
        bell: wakes the coroutine, where it waits.
        max_bytes: the thread waits while more than this waits to be taken.
    """

    def __init__(self, bell: Bell, max_bytes: int) -> None:
        self._bell = bell
        self._max_bytes = max_bytes
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
            self._bell.ring(self._ready)

    def end(self, error: BaseException | None = None) -> None:
        """No more items, because of `error` if there was one. For the thread."""
        with self._lock:
            self._is_ended, self._error = True, error
        self._bell.ring(self._ready)

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
