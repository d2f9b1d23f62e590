"""The gRPC port: services, health, reflection, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from litert_lm._proto.private_pool import POOL
from litert_lm.serve.address import check_free, port_error
from litert_lm.serve.vllm_grpc import (
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    SERVICES,
    VllmServicer,
)

__all__ = ["GrpcPort"]

_STATUS = health_pb2.HealthCheckResponse
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_RESPONSE_BYTES),
    ("grpc.so_reuseport", 0),  # else two servers would share a port in silence
    # A client that vanished without a word is noticed, and its place becomes free.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)


class GrpcPort:
    """A grpc.aio server with the services of a servicer, health and reflection.

    Attributes:
        port: the real one, once started.
    """

    def __init__(self) -> None:
        self._health: Any = None
        self._server: Any = None
        self._servicer: VllmServicer | None = None
        self.port = 0

    async def start(
        self,
        servicer: VllmServicer,
        host: str,
        port: int,
        tls_pair: tuple[bytes, bytes] | None,
    ) -> None:
        """Listen. `tls_pair` holds key and certificate in PEM form.

        Raises:
            InvalidArgumentError: the address cannot be had.
        """
        check_free("grpc_port", host, port)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers(servicer.handlers())
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self._reflect(server)
        await self.set_serving(False)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if tls_pair is None:
                self.port = server.add_insecure_port(address)
            else:
                credentials = grpc.ssl_server_credentials([tls_pair])
                self.port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise port_error("grpc_port", host, port, error) from error
        self._server, self._servicer = server, servicer
        await server.start()

    async def set_serving(self, is_serving: bool) -> None:
        """What the health service says of the server and of each service."""
        status = _STATUS.SERVING if is_serving else _STATUS.NOT_SERVING
        if self._health is not None:
            for service in ("", *SERVICES):
                await self._health.set(service, status)

    async def stop(self, grace_seconds: float, hurry: asyncio.Event | None) -> None:
        """Take no new requests; cancel the others after a while, or once in a hurry.

        Who only watches the health, or reads the schema, is not waited for.
        """
        if self._server is None or self._servicer is None:
            return
        stopping = asyncio.ensure_future(self._server.stop(grace_seconds))
        reasons = (
            asyncio.ensure_future((hurry or asyncio.Event()).wait()),
            asyncio.ensure_future(self._servicer.wait_until_idle()),
        )
        await asyncio.wait((stopping, *reasons), return_when=asyncio.FIRST_COMPLETED)
        for reason in reasons:
            reason.cancel()
        if not stopping.done():
            await self._server.stop(None)
        await stopping

    def _reflect(self, server: Any) -> None:
        for module in (health_pb2, reflection_pb2):
            POOL.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, pool=POOL)
