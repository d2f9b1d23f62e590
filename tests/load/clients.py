"""Clients that know what each of their requests should be answered with."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from litert_lm._proto import vllm_generate_pb2 as schema
from tests.load.process import ServerProcess
from tests.serve.client import joined
from tests.serve.requests import request

__all__ = ["Load", "Report"]

_CANCELLED_SHARE = 1 / 3
_SAMPLE_SECONDS = 0.25
_QUEUE_SLACK_S = 0.3  # between sending and arriving, on a machine that is busy
_MAX_GROWTH = 0.03  # of the memory, after the warm-up
_METHOD = "/vllm.Generate/GenerateStream"


@dataclass
class Report:
    """What came of it.

    Attributes:
        counts: requests by how they ended.
        wrong: answers that differ from those of the same request alone.
        served: (when sent, when the first message came) of each request.
        rss_kib: (seconds, memory of the server) over time.
        warm_s: when the warm-up was over.
    """

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    served: list[tuple[float, float]] = field(default_factory=list)
    rss_kib: list[tuple[float, int]] = field(default_factory=list)
    warm_s: float = 0.0

    @property
    def growth(self) -> float | None:
        """Share by which memory at the end exceeds that after the warm-up."""
        warm = [kib for at, kib in self.rss_kib if at >= self.warm_s]
        if len(warm) < 8:
            return None
        part = max(1, len(warm) // 8)
        before, after = sorted(warm[:part]), sorted(warm[-part:])
        return after[len(after) // 2] / before[len(before) // 2] - 1

    @property
    def num_overtaken(self) -> int:
        """Requests that began although one sent well before them had not."""
        served = sorted(self.served)
        latest, count, earlier = 0.0, 0, 0
        for sent, began in served:
            while served[earlier][0] < sent - _QUEUE_SLACK_S:
                latest = max(latest, served[earlier][1])
                earlier += 1
            count += began < latest - _QUEUE_SLACK_S
        return count

    def faults(self) -> list[str]:
        """What is not as it should be."""
        growth = self.growth
        odd = set(self.counts) - {"done", "cancelled"}
        return [
            *self.wrong[:5],
            *(f"{self.counts[name]} requests ended with {name}" for name in odd),
            *([f"{self.num_overtaken} were overtaken"] if self.num_overtaken else []),
            *([f"memory grew by {growth:.1%}"] if (growth or 0) > _MAX_GROWTH else []),
        ]

    def lines(self) -> Iterator[str]:
        """The report for people."""
        for name, count in sorted(self.counts.items()):
            yield f"{name:12} {count:8}"
        yield f"wrong        {len(self.wrong):8}"
        yield f"overtaken    {self.num_overtaken:8}"
        if self.rss_kib:
            warm = [kib for at, kib in self.rss_kib if at >= self.warm_s] or [0]
            yield f"memory       {warm[0] / 1024:8.1f} MiB after the warm-up"
            yield f"             {warm[-1] / 1024:8.1f} MiB at the end"
        if self.growth is not None:
            yield f"growth       {self.growth:8.2%}"
        yield from (f"FAULT: {fault}" for fault in self.faults())


class Load:
    """Clients in one event loop, each with one request at a time."""

    def __init__(
        self,
        server: ServerProcess,
        *,
        num_clients: int,
        seconds: float,
        warm_up: float,
        seed: int,
    ) -> None:
        self._server = server
        self._num_clients = num_clients
        self._seconds = seconds
        self._seed = seed
        self._requests = list(_requests())
        self._expected: list[list[Any]] = []
        self._report = Report(warm_s=warm_up * seconds)

    async def run(self) -> Report:
        """Run all clients, then compare and count."""
        async with grpc.aio.insecure_channel(self._server.address) as channel:
            call = channel.unary_stream(
                _METHOD,
                schema.GenerateRequest.SerializeToString,
                schema.GenerateResponse.FromString,
            )
            for message in self._requests:
                self._expected.append(_answers([m async for m in call(message)]))
            self._begin_s = time.monotonic()
            clients = [self._client(call, n) for n in range(self._num_clients)]
            await asyncio.gather(self._watch(), *clients)
        return self._report

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._begin_s

    async def _watch(self) -> None:
        while self._now_s < self._seconds:
            rss_kib = self._server.rss_kib()
            if rss_kib is not None:
                self._report.rss_kib.append((self._now_s, rss_kib))
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def _client(self, call: Any, number: int) -> None:
        chance = random.Random(self._seed * 1000 + number)
        while self._now_s < self._seconds:
            index = chance.randrange(len(self._requests))
            is_cancelled = chance.random() < _CANCELLED_SHARE
            limit = chance.randint(0, 4) if is_cancelled else None
            try:
                await self._one(call(self._requests[index]), index, limit)
            except grpc.RpcError as error:
                self._report.counts[error.code().name] += 1

    async def _one(self, call: Any, index: int, limit: int | None) -> None:
        """One request; cancelled after `limit` messages."""
        sent, messages = self._now_s, []
        if limit != 0:
            async for message in call:
                if not messages:
                    self._report.served.append((sent, self._now_s))
                messages.append(message)
                if len(messages) == limit:
                    break
        if limit is not None and len(messages) >= limit:
            call.cancel()
            self._report.counts["cancelled"] += 1
            return
        self._report.counts["done"] += 1
        if _answers(messages) != self._expected[index]:
            self._report.wrong.append(f"request {index} got {messages}")


def _answers(messages: list[Any]) -> list[Any]:
    """Each sequence's answer."""
    indices = {m.outputs.index for m in messages if m.HasField("outputs")}
    return [joined(messages, index) for index in sorted(indices)]


def _requests() -> Iterator[Any]:
    """Short and long prompts, greedy and drawn, some with scores."""
    texts = ("a", "hello there", "the quick brown fox " * 3, "0123456789 " * 6)
    wanted = {"output_token_ids": True}
    for seed, text in enumerate(texts):
        yield request(text, max_new_tokens=30, **wanted)
        yield request(text, max_new_tokens=30, seed=seed, temperature=1.0, **wanted)
        yield request(
            text, max_new_tokens=9, output_logprobs=True, prompt_logprobs=True
        )
        yield request(
            text, max_new_tokens=9, num_sequences=2, seed=seed, temperature=1.0
        )
