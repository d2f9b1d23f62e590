"""Sends hostile requests to a server and says how each ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import grpc

from tests.fuzz.requests import Request
from tests.serve.client import Client

__all__ = ["BAD", "Outcome", "Prober"]

SECONDS = 20.0
"""A request that takes longer hangs."""

BAD = ("INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED", "UNAVAILABLE", "WRONG ANSWER")
"""Statuses that no request may cause; WRONG ANSWER is the next request's."""


@dataclass(frozen=True)
class Outcome:
    """Name of the status, or of what is wrong with the next answer."""

    status: str
    details: str = ""
    seconds: float = 0.0


class Prober:
    """Sends one hostile request at a time, a plain one behind each.

    Args:
        channel: to the server.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._client = Client(channel)
        self._expected = self._plain()

    def send(self, request: Request, *, is_stream: bool) -> Outcome:
        """How the request and the plain one after it ended."""
        begin_s = time.monotonic()
        outcome = self._outcome(request, is_stream)
        outcome = replace(outcome, seconds=time.monotonic() - begin_s)
        try:
            answer = self._plain()
        except grpc.RpcError as error:
            return Outcome("WRONG ANSWER", f"{error.code()}: {error.details()}")
        if answer != self._expected:
            return Outcome("WRONG ANSWER", str(answer))
        return outcome

    def _outcome(self, request: Request, is_stream: bool) -> Outcome:
        try:
            if is_stream:
                list(self._client.streamed(request.data, timeout=SECONDS))
            else:
                self._client.unary(request.data, timeout=SECONDS)
        except grpc.RpcError as error:
            return Outcome(error.code().name, error.details() or "")
        return Outcome("OK")

    def _plain(self) -> Any:
        return self._client.generate("next", output_token_ids=True)
