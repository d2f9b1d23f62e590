"""A small HTTP/1.1 port: GET and HEAD of a few paths, one request per connection."""

from __future__ import annotations

import asyncio
import http
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from litert_lm.serve.address import check_free

__all__ = ["HttpPort", "Reply"]

_MAX_HEAD_BYTES = 1 << 16
_MAX_SECONDS = 10.0  # for a request to arrive and its reply to be read


@dataclass(frozen=True)
class Reply:
    """What a path answers."""

    status: http.HTTPStatus = http.HTTPStatus.OK
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


Route = Callable[[Mapping[str, str]], Reply]
"""Given the request's headers, their names in lower case."""


class HttpPort:
    """Serves `routes`, by path.

    Attributes:
        port: the real one, once started.
    """

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[object]] = set()
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen. Raises InvalidArgumentError when the address cannot be had."""
        check_free("http_port", host, port)
        self._server = await asyncio.start_server(
            self._serve, host, port, ssl=tls, limit=_MAX_HEAD_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no new connections and let the open ones end."""
        if self._server is not None:
            self._server.close()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        with suppress(OSError, TimeoutError, EOFError):
            async with asyncio.timeout(_MAX_SECONDS):
                writer.write(await self._answer(reader))
                await writer.drain()
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_MAX_SECONDS):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _bytes(Reply(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        line, *fields = head.decode("latin-1").split("\r\n")
        parts = line.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _bytes(Reply(http.HTTPStatus.BAD_REQUEST))
        method, target, _ = parts
        reply = self._reply(method, target, _headers(fields))
        return _bytes(reply, has_body=method != "HEAD")

    def _reply(self, method: str, target: str, headers: Mapping[str, str]) -> Reply:
        route = self._routes.get(target.partition("?")[0])
        if route is None:
            known = ", ".join(self._routes)
            text = f"There is no such page; there are {known}.\n"
            return Reply(http.HTTPStatus.NOT_FOUND, text.encode())
        if method not in ("GET", "HEAD"):
            return Reply(http.HTTPStatus.METHOD_NOT_ALLOWED, b"Use GET.\n")
        return route(headers)


def _headers(fields: list[str]) -> dict[str, str]:
    pairs = (field.partition(":") for field in fields)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _bytes(reply: Reply, *, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
        f"Content-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (reply.body if has_body else b"")
