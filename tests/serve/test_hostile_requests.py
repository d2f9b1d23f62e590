"""Wrong and hostile requests get a status, and the server answers the next one."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.requests import HostileRequests
from tests.fuzz.serving import BAD, Prober
from tests.serve.client import Client, RunningServer

KINDS = tuple(HostileRequests(random.Random(0)).kinds)
NUM_REQUESTS = 17  # of each kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_and_the_next_answer(server: RunningServer, kind: str) -> None:
    chance = random.Random(KINDS.index(kind))
    requests, prober = HostileRequests(chance), Prober(server.channel)
    for number in range(NUM_REQUESTS):
        request = requests.draw(kind)
        outcome = prober.send(request, is_stream=number % 2 == 0)
        assert outcome.status not in BAD, (request.data[:300], outcome)


def test_the_same_seed_draws_the_same_requests() -> None:
    for kind in KINDS:
        draws = [HostileRequests(random.Random(3)).draw(kind) for _ in range(2)]
        assert draws[0] == draws[1]


def test_a_message_beyond_the_limit_is_refused(client: Client) -> None:
    failure = client.failure("x" * (17 << 20))
    assert failure.code.name == "RESOURCE_EXHAUSTED"
    assert client.generate()


def test_a_long_name_is_shown_in_short(client: Client) -> None:
    failure = client.failure(model="x" * 10_000_000)
    assert failure.code.name == "NOT_FOUND"
    assert len(failure.details) < 300
