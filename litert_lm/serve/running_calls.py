"""How many calls run, for a server that waits for their end."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["RunningCalls"]

_MOMENT_SECONDS = 0.05  # in which a request whose headers have come is read


class RunningCalls:
    """Calls that have begun and whose last byte is not sent. For one event loop."""

    def __init__(self) -> None:
        self._num_running = 0
        self._none = asyncio.Event()
        self._none.set()

    def add(self, context: Any) -> None:
        """Count the call of a grpc.aio.ServicerContext until it has ended."""
        self._num_running += 1
        self._none.clear()
        context.add_done_callback(self._remove)

    def _remove(self, _: Any) -> None:
        self._num_running -= 1
        if not self._num_running:
            self._none.set()

    async def wait_until_none(self) -> None:
        """Until no call runs, and none has come a moment later."""
        while True:
            await self._none.wait()
            await asyncio.sleep(_MOMENT_SECONDS)
            if not self._num_running:
                return
