"""Servers of the conformance model on real sockets."""

from __future__ import annotations

import time
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

_SERVER_OPTIONS = ("host", "api_key", "tls_cert", "tls_key", "grace_seconds")


@pytest.fixture(scope="session")
def model_path(save_bundle: Callable[..., Path]) -> Path:
    """The conformance model: 64 tokens, a context of 128."""
    return save_bundle(["conformance"], conformance_bundle)


@pytest.fixture(scope="session")
def start(
    model_path: Path, cache_dir: Path, quick_first_load: None
) -> Iterator[Callable[..., RunningServer]]:
    """start(**options): a server, with options of ServerOptions and of Engine.

    With step_seconds each decode step takes at least so long. With before_load, which
    is called first by the loading thread, this does not wait for the model.
    """
    servers = []

    def start_one(**options: Any) -> RunningServer:
        step_seconds = options.pop("step_seconds", 0.0)
        before_load = options.pop("before_load", None)
        own = {name: options.pop(name) for name in _SERVER_OPTIONS if name in options}

        def load() -> Engine:
            if before_load is not None:
                before_load()
            engine = Engine(
                str(model_path),
                Backend.CPU(thread_count=1),
                cache_dir=str(cache_dir),
                **options,
            )
            slow_down(engine, step_seconds)
            return engine

        chosen = ServerOptions(
            grpc_port=0, http_port=0, model_names=("toy", "other"), **own
        )
        servers.append(RunningServer(chosen, load))
        if before_load is None:
            servers[-1].wait_until_loaded()
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


@pytest.fixture(scope="session")
def limited(start: Callable[..., RunningServer]) -> RunningServer:
    """A slow server that runs one request and lets two wait."""
    return start(max_running=1, max_waiting=2, step_seconds=0.01)


def slow_down(engine: Engine, seconds: float) -> None:
    """Have each decode step take at least `seconds`."""
    decode = engine.executor.decode

    def slow(*arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return decode(*arguments, **options)

    if seconds:
        engine.executor.decode = slow  # type: ignore[method-assign]
