"""The iterator over a reply's deltas that callers hold, for `for` and `async for`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from litert_lm.chat.messages import Message
from litert_lm.errors import CancelledError
from litert_lm.generate.chunk_iterator import ChunkIterator

__all__ = ["ReplyStream"]

_PATIENCE_S = 5.0  # a step of the model ends within it, a tool may run for ever


class ReplyStream(ChunkIterator[Message], AsyncIterator[Message]):
    """Deltas of a reply as they are made.

    Nothing is generated before it is asked for. Closing the stream, dropping it, or
    sending the next message ends generation; what was said until then stays in the
    conversation.

    Args:
        deltas: makes them, and at its end gives the last reply.
        cancel: ends a delta that another thread waits for.
        is_whole: the caller wants the reply to its end.

    Attributes:
        message: the whole last reply, with its `info`; None until that has ended.
    """

    def __init__(
        self,
        deltas: Generator[Message, None, Message | None],
        cancel: Callable[[], None],
        *,
        is_whole: bool = False,
    ) -> None:
        super().__init__(deltas, cancel)
        self._is_awaited = is_whole
        self.message: Message | None = None

    @property
    def info(self) -> Any:
        """The ReplyInfo of `message`, or None."""
        return None if self.message is None else self.message.info

    def whole(self) -> Message:
        """The reply, of a stream that was read to its end.

        Raises:
            CancelledError: it never began.
        """
        if self.message is None:
            raise CancelledError("The message was cancelled before the reply began.")
        return self.message

    def __next__(self) -> Message:
        try:
            return super().__next__()
        except BaseException as end:
            self._is_awaited = False
            if isinstance(end, StopIteration):
                self.message = end.value or self.message
            raise

    def __aiter__(self) -> ReplyStream:
        return self

    async def __anext__(self) -> Message:
        """The next delta; the event loop goes on meanwhile."""
        waiting = asyncio.ensure_future(asyncio.to_thread(next, self, None))
        try:
            delta = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await self._end(waiting)
            raise
        if delta is None:
            raise StopAsyncIteration
        return delta

    async def _end(self, waiting: asyncio.Future[Message | None]) -> None:
        """Stop the model; a tool that does not end is left to itself."""
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._cancel()
        try:
            await asyncio.wait([waiting], timeout=_PATIENCE_S)
        finally:
            self._is_awaited = False
            self.close()

    async def aclose(self) -> None:
        """`close` for coroutines."""
        await asyncio.to_thread(self.close)

    @property
    def has_ended(self) -> bool:
        """Whether no delta can come any more."""
        return inspect.getgeneratorstate(self._chunks) == inspect.GEN_CLOSED

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for the next delta, or for the end."""
        return (
            self._is_awaited
            or inspect.getgeneratorstate(self._chunks) == inspect.GEN_RUNNING
        )
