"""Many requests at one server: who runs, who waits, who is refused, who leaves."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.serve.client import Client, RunningServer, failure_of, joined
from tests.serve.requests import request

ROOT = Path(__file__).parents[2]
ENDLESS = {"ignore_eos": True, "max_new_tokens": 120}
SHORT = {"max_new_tokens": 3, "output_token_ids": True}


def begin(server: RunningServer, count: int = 3, **fields: Any) -> Any:
    """An endless stream of which `count` messages were read."""
    call = server.client.streamed(request("abc", **ENDLESS, **fields))
    for _ in range(count):
        next(call)
    return call


def wait_until(check: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def scheduler(server: RunningServer) -> Any:
    return server.server._served.engine.scheduler


def is_idle(server: RunningServer) -> bool:
    counts = scheduler(server)
    return counts.num_running == counts.num_waiting == 0


def test_a_cancelled_stream_frees_its_place(limited: RunningServer) -> None:
    alone = limited.client.generate(**SHORT)
    call = begin(limited)
    call.cancel()
    began = time.monotonic()
    assert limited.client.generate(**SHORT) == alone
    assert time.monotonic() - began < 0.6
    assert failure_of(lambda: call).code is grpc.StatusCode.CANCELLED


def test_a_deadline_frees_the_place(limited: RunningServer) -> None:
    alone = limited.client.generate(**SHORT)
    call = limited.client.streamed(request("abc", **ENDLESS), timeout=0.3)
    assert failure_of(lambda: call).code is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: is_idle(limited), seconds=0.3)
    assert limited.client.generate(**SHORT) == alone


def test_a_unary_deadline_frees_the_place_too(limited: RunningServer) -> None:
    message = request("abc", **ENDLESS)
    failure = failure_of(lambda: [limited.client.unary(message, timeout=0.2)])
    assert failure.code is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: is_idle(limited), seconds=0.3)


def test_a_client_that_vanishes_frees_its_place(limited: RunningServer) -> None:
    script = (
        "import grpc, sys, time\n"
        "from tests.serve.client import Client\n"
        "from tests.serve.requests import request\n"
        "client = Client(grpc.insecure_channel(sys.argv[1]))\n"
        "call = client.streamed(request('abc', ignore_eos=True, max_new_tokens=120))\n"
        "next(call)\n"
        "print('running', flush=True)\n"
        "time.sleep(60)\n"
    )
    address = f"127.0.0.1:{limited.server.grpc_port}"
    process = subprocess.Popen(
        [sys.executable, "-c", script, address], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"running\n"
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: is_idle(limited), seconds=0.5)


def first_message_s(call: Any) -> float:
    next(call)
    return time.monotonic()


def start_order(server: RunningServer, priorities: list[int]) -> list[int]:
    """Indices of queued requests in the order in which they start."""
    running = begin(server)
    calls = []
    for index, priority in enumerate(priorities):
        message = request("xyz", priority=priority, **SHORT)
        calls.append(server.client.streamed(message))
        wait_until(lambda n=index: scheduler(server).num_waiting == n + 1)
    with ThreadPoolExecutor(len(calls)) as pool:
        times = pool.map(first_message_s, calls)
        running.cancel()
        found = list(times)
    for call in calls:
        list(call)
    return sorted(range(len(calls)), key=found.__getitem__)


@pytest.mark.parametrize(
    ("priorities", "order"), [([0, 0], [0, 1]), ([3, -3], [1, 0]), ([-1, 2], [0, 1])]
)
def test_waiting_requests_start_by_priority_then_arrival(
    limited: RunningServer, priorities: list[int], order: list[int]
) -> None:
    assert start_order(limited, priorities) == order


def test_a_full_queue_refuses(limited: RunningServer) -> None:
    alone = limited.client.generate(**SHORT)

    def attempt(_: int) -> Any:
        try:
            return limited.client.generate(**SHORT)
        except grpc.RpcError as error:
            return error.code()

    running = begin(limited)
    with ThreadPoolExecutor(4) as pool:
        pending = [pool.submit(attempt, index) for index in range(4)]
        wait_until(lambda: sum(p.done() for p in pending) == 2)
        running.cancel()
        results = [p.result() for p in pending]
    refused = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert results.count(refused) == 2
    assert [r for r in results if r is not refused] == [alone, alone]


def test_a_waiting_request_can_leave(limited: RunningServer) -> None:
    running = begin(limited)
    call = limited.client.streamed(request("abc"))
    wait_until(lambda: scheduler(limited).num_waiting == 1)
    call.cancel()
    wait_until(lambda: scheduler(limited).num_waiting == 0, seconds=1)
    running.cancel()
    wait_until(lambda: is_idle(limited))


MIXED = [
    ("abc", {"temperature": 1.0, "seed": 1}),
    ("the quick brown fox", {"temperature": 0.7, "seed": 2, "top_k": 9}),
    ("q", {}),
    ("zzzzzzzz", {"temperature": 1.3, "seed": 3, "top_p": 0.8}),
    ("a long prompt " * 4, {"temperature": 2.0, "seed": 4}),
    ("abc", {"temperature": 1.0, "seed": 5, "num_sequences": 2}),
    ("mn", {"presence_penalty": 1.0, "repetition_penalty": 1.2}),
    ("hi", {"temperature": 1.0, "seed": 6, "min_p": 0.1}),
]


def test_neighbours_change_nothing(client: Client) -> None:
    wanted = {"output_token_ids": True, "output_logprobs": True, "max_new_tokens": 40}

    def run(case: tuple[str, dict[str, Any]]) -> list[Any]:
        messages = client.stream(case[0], **wanted, **case[1])
        return [joined(messages, i) for i in range(case[1].get("num_sequences", 1))]

    alone = [run(case) for case in MIXED]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            assert list(pool.map(run, MIXED)) == alone
