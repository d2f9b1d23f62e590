"""Items go from a thread to a coroutine, all of them, in order, and bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from litert_lm.serve.channel import Bell, Channel


async def all_of(channel: Channel[int]) -> list[list[int]]:
    taken = []
    while items := await channel.take():
        taken.append(items)
    return taken


def run(work: Callable[[Channel[int]], None], max_bytes: int = 100) -> list[list[int]]:
    """What a coroutine takes while `work` puts in a thread."""

    async def main() -> list[list[int]]:
        channel: Channel[int] = Channel(Bell(), max_bytes)
        thread = threading.Thread(target=work, args=[channel])
        thread.start()
        try:
            return await all_of(channel)
        finally:
            thread.join()

    return asyncio.run(main())


def test_what_waits_is_taken_at_once_and_in_order() -> None:
    def work(channel: Channel[int]) -> None:
        for number in range(5000):
            channel.put(number, 1)
        channel.end()

    taken = run(work)
    assert [item for items in taken for item in items] == list(range(5000))
    assert max(map(len, taken)) <= 102


def test_slow_items_come_one_by_one() -> None:
    def work(channel: Channel[int]) -> None:
        for number in range(5):
            channel.put(number, 1)
            time.sleep(0.02)
        channel.end()

    assert run(work) == [[0], [1], [2], [3], [4]]


def test_an_error_comes_behind_the_items() -> None:
    def work(channel: Channel[int]) -> None:
        channel.put(1, 1)
        channel.end(ValueError("it broke"))

    async def main() -> None:
        channel: Channel[int] = Channel(Bell(), 100)
        await asyncio.to_thread(work, channel)
        assert await channel.take() == [1]
        with pytest.raises(ValueError, match="it broke"):
            await channel.take()

    asyncio.run(main())


def test_a_closed_channel_holds_nobody_up() -> None:
    async def main() -> None:
        channel: Channel[int] = Channel(Bell(), 10)
        putting = asyncio.ensure_future(asyncio.to_thread(put_many, channel))
        await asyncio.sleep(0.02)
        assert not putting.done()
        channel.close()
        await asyncio.wait_for(putting, 5)

    def put_many(channel: Channel[int]) -> None:
        for number in range(100):
            channel.put(number, 5)

    asyncio.run(main())
