"""The HTTP port against requests that are none."""

from __future__ import annotations

import socket

import pytest

from tests.serve.client import RunningServer


def answer(server: RunningServer, data: bytes, *, ends: bool = True) -> bytes:
    """All that comes back."""
    address = "127.0.0.1", server.server.http_port
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /health?x=1 HTTP/1.0\r\nHost: x\r\n\r\n", b"200"),
        (b"\x16\x03\x01\x00\xff\r\n\r\n", b"400"),
        (b"GET  /health HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /health SPDY\r\n\r\n", b"400"),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /health HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_each_gets_a_status(server: RunningServer, data: bytes, status: bytes) -> None:
    assert answer(server, data).split(b" ", 2)[1] == status


def test_head_has_no_body(server: RunningServer) -> None:
    reply = answer(server, b"HEAD /health HTTP/1.1\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n") and reply.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("data", [b"", b"GET /hea"])
def test_half_a_request_gets_nothing(server: RunningServer, data: bytes) -> None:
    assert answer(server, data) == b""


def test_a_client_that_says_nothing_is_left(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert_lm.serve.http_port._MAX_SECONDS", 0.1)
    assert answer(server, b"GET /health", ends=False) == b""
