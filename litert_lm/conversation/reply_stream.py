"""The iterator over a reply's deltas that callers hold, for `for` and `async for`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

from litert_lm.chat.messages import Message
from litert_lm.errors import SessionStateError

__all__ = ["ReplyStream"]


class ReplyStream(Iterator[Message], AsyncIterator[Message]):
    """Deltas of a reply as they are made.

    Nothing is generated before it is asked for. Closing the stream, dropping it, or
    sending the next message ends generation; what was said until then stays in the
    conversation.

    Attributes:
        message: the whole last reply, with its `info`; None until that has ended.
    """

    def __init__(
        self,
        deltas: Generator[Message, None, Message | None],
        cancel: Callable[[], None],
    ) -> None:
        self._deltas = deltas
        self._cancel = cancel
        self._reading = threading.Lock()
        self.message: Message | None = None

    @property
    def info(self) -> Any:
        """The ReplyInfo of `message`, or None."""
        return None if self.message is None else self.message.info

    def __iter__(self) -> ReplyStream:
        return self

    def __next__(self) -> Message:
        """The next delta.

        Raises:
            SessionStateError: another thread waits for it already.
        """
        if not self._reading.acquire(blocking=False):
            raise SessionStateError(
                "Another thread reads this reply; use a conversation for each thread."
            )
        try:
            return next(self._deltas)
        except StopIteration as end:
            self.message = end.value or self.message
            raise
        finally:
            self._reading.release()

    def __aiter__(self) -> ReplyStream:
        return self

    async def __anext__(self) -> Message:
        """The next delta; the event loop goes on meanwhile."""
        waiting = asyncio.ensure_future(asyncio.to_thread(next, self, None))
        try:
            delta = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait([waiting])
            self.close()
            raise
        if delta is None:
            raise StopAsyncIteration
        return delta

    def close(self) -> None:
        """End the reply, also while another thread waits for its next delta."""
        if not self._reading.acquire(blocking=False):
            self._cancel()
            return
        try:
            self._deltas.close()
        finally:
            self._reading.release()

    async def aclose(self) -> None:
        """`close` for coroutines."""
        await asyncio.to_thread(self.close)

    @property
    def is_read_elsewhere(self) -> bool:
        """Whether a thread waits for the next delta now."""
        if self._reading.acquire(blocking=False):
            self._reading.release()
            return False
        return True
