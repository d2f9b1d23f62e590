"""A client of the gRPC services over a real socket, and the server in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from litert_lm._proto import vllm_generate_pb2 as schema
from litert_lm.serve.app import Server
from litert_lm.serve.options import ServerOptions
from tests.serve.requests import request

__all__ = ["Client", "Failure", "RunningServer", "joined"]

_SECONDS = 60.0


@dataclass(frozen=True)
class Failure:
    """How a call failed, and how many messages came before."""

    code: grpc.StatusCode
    details: str
    num_messages: int = 0


class Client:
    """Both RPCs of one service."""

    def __init__(self, channel: grpc.Channel, service: str = "vllm.Generate") -> None:
        read = schema.GenerateResponse.FromString
        self.unary = channel.unary_unary(f"/{service}/Generate", _bytes, read)
        self.streamed = channel.unary_stream(f"/{service}/GenerateStream", _bytes, read)

    def generate(self, prompt: Any = "abc", **fields: Any) -> Any:
        """The response of the unary RPC."""
        return self.unary(request(prompt, **fields), timeout=_SECONDS)

    def output(self, prompt: Any = "abc", **fields: Any) -> Any:
        """`outputs` of the unary RPC, with token ids."""
        fields.setdefault("output_token_ids", True)
        return self.generate(prompt, **fields).outputs

    def ids(self, prompt: Any = "abc", **fields: Any) -> list[int]:
        """Token ids of the unary RPC."""
        return list(self.output(prompt, **fields).token_ids)

    def stream(self, prompt: Any = "abc", **fields: Any) -> list[Any]:
        """All messages of the streaming RPC."""
        return list(self.streamed(request(prompt, **fields), timeout=_SECONDS))

    def failure(self, prompt: Any = "abc", **fields: Any) -> Failure:
        """How the unary RPC fails."""
        return failure_of(lambda: [self.generate(prompt, **fields)])

    def stream_failure(self, prompt: Any = "abc", **fields: Any) -> Failure:
        """How the streaming RPC fails."""
        message = request(prompt, **fields)
        return failure_of(lambda: self.streamed(message, timeout=_SECONDS))

    def code(self, prompt: Any = "abc", **fields: Any) -> str:
        """Name of the status of both RPCs, which agree, before any message."""
        failures = self.failure(prompt, **fields), self.stream_failure(prompt, **fields)
        assert failures[0].code is failures[1].code
        assert failures[1].num_messages == 0
        return str(failures[0].code.name)


def failure_of(call: Callable[[], Any]) -> Failure:
    """How a call fails."""
    count = 0
    try:
        for _ in call():
            count += 1
    except grpc.RpcError as error:
        return Failure(error.code(), error.details(), count)
    raise AssertionError("the call did not fail")


def joined(messages: list[Any], index: int = 0) -> Any:
    """A stream's messages as the response that the unary RPC would give."""
    whole = schema.GenerateResponse()
    text, num_tokens = "", 0
    for message in messages:
        if message.HasField("prompt_info") or message.outputs.index == index:
            whole.MergeFrom(message)
            text += message.outputs.text
            num_tokens += message.outputs.num_tokens
    whole.outputs.text, whole.outputs.num_tokens = text, num_tokens
    return whole


class RunningServer:
    """A server in a thread of its own.

    Attributes:
        client: of service vllm.Generate.
        channel: to the gRPC port.
        server: with the ports' numbers.
    """

    def __init__(self, options: ServerOptions, load: Callable[[], Any]) -> None:
        self._options, self._load = options, load
        self._started, self._loaded = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._started.wait(_SECONDS)
        if self._error is not None:
            self._thread.join()
            raise self._error
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")
        self.client = Client(self.channel)

    def wait_until_loaded(self) -> None:
        """Return once requests are taken."""
        assert self._loaded.wait(_SECONDS)

    def close(self) -> None:
        """Drain, and wait for the end; does nothing the second time."""
        self.channel.close()
        if self._thread.is_alive():
            self.begin_stop()
        self.wait()

    def wait(self) -> None:
        """Wait for the end."""
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive()

    def begin_stop(self) -> None:
        """Have the server drain, without waiting for it."""
        self._loop.call_soon_threadsafe(self._ending.set)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self.server = Server(self._options, self._load)
        try:
            await self.server.start()
            self._started.set()
            await self.server.load()
            self._loaded.set()
            await self._ending.wait()
        except BaseException as error:
            self._error = error
        finally:
            await self.server.stop()
            self._started.set()


def _bytes(message: Any) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
