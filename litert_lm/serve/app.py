"""The server's life: its ports open, the model loads, requests run, all drain."""

from __future__ import annotations

import asyncio
import http
import json
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from litert_lm.engine import Engine
from litert_lm.serve.grpc_port import GrpcPort
from litert_lm.serve.http_port import HttpPort, Reply
from litert_lm.serve.metrics import Metrics
from litert_lm.serve.options import ServerOptions
from litert_lm.serve.served import Served
from litert_lm.serve.vllm_grpc import VllmServicer

__all__ = ["Server", "run"]

_MAX_THREADS = 4096  # requests that run or wait; one that waits costs little
_JSON = "application/json"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server:
    """One model behind a gRPC and an HTTP port. Used inside one event loop.

    Args:
        options: addresses, names, keys.
        load: opens the engine, in a thread; `stop` closes it.

    Attributes:
        grpc_port, http_port: the real ones, once started.
    """

    def __init__(self, options: ServerOptions, load: Callable[[], Engine]) -> None:
        self._options = options
        self._load = load
        self._metrics = Metrics(options.model_names[0])
        self._served = Served(options.model_names, self._metrics)
        self._threads = ThreadPoolExecutor(_MAX_THREADS, "litert-lm-request")
        self._servicer: VllmServicer | None = None
        self._grpc = GrpcPort()
        self._http = HttpPort({"/health": self._health, "/metrics": self._figures})

    @property
    def grpc_port(self) -> int:
        """Where gRPC clients find the server."""
        return self._grpc.port

    @property
    def http_port(self) -> int:
        """Where HTTP clients find the server."""
        return self._http.port

    async def start(self) -> None:
        """Open the ports. Requests are refused until the model is loaded.

        Raises:
            InvalidArgumentError: a port cannot be opened, or certificate and key do not
                fit together.
            StorageError: certificate or key cannot be read.
        """
        options, tls = self._options, self._options.tls_context()
        await self._http.start(options.host, options.http_port, tls)
        servicer = VllmServicer(self._served, self._threads, options.api_key)
        self._servicer = servicer
        pair = options.tls_pair()
        await self._grpc.start(servicer, options.host, options.grpc_port, pair)

    async def load(self) -> None:
        """Load the model and take requests. Raises what opening the engine raises."""
        engine = await _in_daemon_thread(self._load)
        self._metrics.watch(engine)
        self._served.engine = engine
        await self._grpc.set_serving(True)

    async def stop(self, hurry: asyncio.Event | None = None) -> None:
        """Take no new requests, let the others finish for a while, free the model.

        Args:
            hurry: once set, requests that still run are cancelled.
        """
        self._served.is_draining = True
        await self._grpc.set_serving(False)
        await self._grpc.stop(self._options.grace_seconds, hurry)
        await self._http.stop()
        await asyncio.to_thread(self._threads.shutdown)
        if self._servicer is not None:
            self._servicer.close()
        if self._served.engine is not None:
            self._served.engine.close()

    def _health(self, headers: Mapping[str, str]) -> Reply:
        if self._served.is_ready:
            return Reply(body=b'{"status": "serving"}\n', content_type=_JSON)
        state = "draining" if self._served.is_draining else "loading"
        body = json.dumps({"status": state}).encode() + b"\n"
        return Reply(http.HTTPStatus.SERVICE_UNAVAILABLE, body, _JSON)

    def _figures(self, headers: Mapping[str, str]) -> Reply:
        content_type, body = self._metrics.text(headers.get("accept", ""))
        return Reply(body=body, content_type=content_type)


async def run(server: Server, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the draining.

    Args:
        on_ready: called once requests are taken.
    """
    ending, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, ending, hurry)
    try:
        await server.start()
        loading = asyncio.ensure_future(server.load())
        waiting = asyncio.ensure_future(ending.wait())
        await asyncio.wait((loading, waiting), return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            on_ready()
            await waiting
        loading.cancel()
    finally:
        await server.stop(hurry)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _on_signal(ending: asyncio.Event, hurry: asyncio.Event) -> None:
    if ending.is_set():
        hurry.set()
    ending.set()


async def _in_daemon_thread(work: Callable[[], Engine]) -> Engine:
    """The result of `work`; a process that ends does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Engine] = loop.create_future()

    def settle(engine: Engine | None, error: BaseException | None) -> None:
        if future.cancelled():
            if engine is not None:
                engine.close()
        elif error is not None:
            future.set_exception(error)
        elif engine is not None:
            future.set_result(engine)

    def target() -> None:
        engine, error = None, None
        try:
            engine = work()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop has ended, and the process ends
            loop.call_soon_threadsafe(settle, engine, error)

    threading.Thread(target=target, name="litert-lm-load", daemon=True).start()
    return await future
