"""A small web server with faults on demand, and a store in a temporary folder."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

import pytest

from litert_lm.hub.store import ModelStore

BUNDLE = b"LITERTLM and the rest"


@dataclass
class FileServer:
    """Serves `content` at any path; counts requests and breaks off when told to."""

    content: bytes
    etag: str | None = '"v1"'
    statuses: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    redirect: str | None = None
    ranges: list[str | None] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/model.litertlm"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.ranges.append(request.headers.get("Range"))
        if self.statuses:
            request.send_error(self.statuses.pop(0))
        elif self.redirect:
            request.send_response(302)
            request.send_header("Location", self.redirect)
            request.send_header("Content-Length", "0")
            request.end_headers()
        else:
            self._send(request)

    def _send(self, request: BaseHTTPRequestHandler) -> None:
        start = self._start(request)
        request.send_response(206 if start else 200)
        if start:
            span = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
            request.send_header("Content-Range", span)
        if self.etag:
            request.send_header("ETag", self.etag)
        request.send_header("Content-Length", str(len(self.content) - start))
        request.end_headers()
        end = self.cuts.pop(0) if self.cuts else len(self.content)
        request.wfile.write(self.content[start:end])
        request.close_connection = True

    def _start(self, request: BaseHTTPRequestHandler) -> int:
        wanted = request.headers.get("Range")
        if wanted is None or request.headers.get("If-Range") != self.etag:
            return 0
        return int(wanted.removeprefix("bytes=").rstrip("-"))


class Site(Protocol):
    """What answers the requests of a local server; learns its port from it."""

    port: int

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Write the response to one request."""


@contextmanager
def serving(site: Site) -> Iterator[None]:
    """A server of this machine that answers with `site` while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        site.port = http.server_port
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        yield
        http.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[FileServer]:
    site = FileServer(bytes(range(256)) * 4000)
    with serving(site):
        yield site


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A file that passes for a bundle where nobody reads on."""
    path = tmp_path / "My model.litertlm"
    path.write_bytes(BUNDLE)
    return path


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")
