"""Servers of the conformance model on real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="needs the extra grpc")
pytest.importorskip("prometheus_client", reason="needs the extra grpc")

from litert_lm import Backend, Engine
from litert_lm.serve.options import ServerOptions
from tests.fixtures.conformance import conformance_bundle
from tests.serve.client import Client, RunningServer

_SERVER_OPTIONS = ("api_key", "tls_cert", "tls_key", "grace_seconds")


@pytest.fixture(scope="session")
def model_path(save_bundle: Callable[..., Path]) -> Path:
    """The conformance model: 64 tokens, a context of 128."""
    return save_bundle(["conformance"], conformance_bundle)


@pytest.fixture(scope="session")
def start(
    model_path: Path, cache_dir: Path, quick_first_load: None
) -> Iterator[Callable[..., RunningServer]]:
    """start(**options): a server, with options of ServerOptions and of Engine."""
    servers = []

    def start_one(**options: Any) -> RunningServer:
        own = {name: options.pop(name) for name in _SERVER_OPTIONS if name in options}

        def load() -> Engine:
            return Engine(
                str(model_path),
                Backend.CPU(thread_count=1),
                cache_dir=str(cache_dir),
                **options,
            )

        chosen = ServerOptions(
            grpc_port=0, http_port=0, model_names=("toy", "other"), **own
        )
        servers.append(RunningServer(chosen, load))
        return servers[-1]

    yield start_one
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def server(start: Callable[..., RunningServer]) -> RunningServer:
    """A server without limits."""
    return start()


@pytest.fixture
def client(server: RunningServer) -> Client:
    """A client of it."""
    return server.client


@pytest.fixture
def limited(start: Callable[..., RunningServer]) -> RunningServer:
    """A server that runs one request at a time."""
    return start(max_running=1)
