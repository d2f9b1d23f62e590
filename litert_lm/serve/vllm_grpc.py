"""The gRPC services of the vLLM Generate schema."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import grpc

from litert_lm._proto import vllm_generate_pb2 as schema
from litert_lm.errors import AccessDeniedError, MessageTooLargeError
from litert_lm.serve.call import Call
from litert_lm.serve.channel import Bell, Channel
from litert_lm.serve.running_calls import RunningCalls
from litert_lm.serve.served import Served
from litert_lm.serve.status import status_of
from litert_lm.serve.vllm_messages import absorb

__all__ = ["MAX_REQUEST_BYTES", "MAX_RESPONSE_BYTES", "SERVICES", "VllmServicer"]

SERVICES = tuple(
    service.full_name for service in schema.DESCRIPTOR.services_by_name.values()
)
"""Full names of the services; all have the same methods."""

MAX_REQUEST_BYTES = 16 << 20
MAX_RESPONSE_BYTES = 256 << 20

_MAX_WAITING_BYTES = 4 << 20  # of one stream whose client reads slowly


class VllmServicer:
    """Answers both RPCs over one model. Made inside the event loop.

    Args:
        served: the model.
        threads: requests run on these.
        api_key: what clients must send as ``authorization: Bearer KEY``, or None.
    """

    def __init__(self, served: Served, threads: Executor, api_key: str | None) -> None:
        self._served = served
        self._threads = threads
        self._bell = Bell()
        self._calls = RunningCalls()
        self._authorization = None if api_key is None else f"Bearer {api_key}".encode()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """For a grpc.aio.Server. Messages pass as bytes: wrong ones get a status."""
        methods = {
            "Generate": grpc.unary_unary_rpc_method_handler(self.generate),
            "GenerateStream": grpc.unary_stream_rpc_method_handler(
                self.generate_stream
            ),
        }
        return [
            grpc.method_handlers_generic_handler(service, methods)
            for service in SERVICES
        ]

    async def wait_until_idle(self) -> None:
        """Until no call runs, and none has come a moment later."""
        await self._calls.wait_until_none()

    def close(self) -> None:
        """Free what is not the loop's; no call may be running."""
        self._bell.close()

    async def generate(self, data: bytes, context: Any) -> bytes:
        """One request, one response."""
        self._calls.add(context)
        call = Call(self._served, data)
        try:
            self._check_key(context)
            reply: bytes = await self._in_thread(call.answer)
            _check_size(len(reply))
            context.set_trailing_metadata(call.trailing_metadata)
            return reply
        except Exception as error:
            await context.abort(*status_of(error))
            raise
        finally:
            call.cancel()

    async def generate_stream(self, data: bytes, context: Any) -> None:
        """One request, responses as they come."""
        self._calls.add(context)
        call = Call(self._served, data)
        channel: Channel[schema.GenerateResponse] = Channel(
            self._bell, _MAX_WAITING_BYTES
        )
        try:
            self._check_key(context)
            self._in_thread(lambda: _stream_into(channel, call))
            while messages := await channel.take():
                await _write(context, messages)
            context.set_trailing_metadata(call.trailing_metadata)
        except Exception as error:
            await context.abort(*status_of(error))
            raise
        finally:
            channel.close()
            call.cancel()

    def _in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _check_key(self, context: Any) -> None:
        if self._authorization is None:
            return
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        given = given if isinstance(given, bytes) else given.encode()
        if not hmac.compare_digest(given, self._authorization):
            raise AccessDeniedError(
                "The API key is missing or wrong; send it as metadata "
                "'authorization: Bearer KEY'."
            )


def _stream_into(channel: Channel[schema.GenerateResponse], call: Call) -> None:
    try:
        call.stream(channel.put)
    except BaseException as error:
        channel.end(error)
    else:
        channel.end()


async def _write(context: Any, messages: list[schema.GenerateResponse]) -> None:
    """Send what waits; news of one sequence that follow each other become one."""
    first, *rest = messages
    for message in rest:
        if not absorb(first, message):
            await _send(context, first)
            first = message
    await _send(context, first)


async def _send(context: Any, message: schema.GenerateResponse) -> None:
    data = message.SerializeToString()
    _check_size(len(data))
    await context.write(data)


def _check_size(num_bytes: int) -> None:
    if num_bytes > MAX_RESPONSE_BYTES:
        raise MessageTooLargeError(
            f"The response has {num_bytes} bytes, more than the {MAX_RESPONSE_BYTES} "
            "that the server sends; ask for fewer candidates, or stream."
        )
