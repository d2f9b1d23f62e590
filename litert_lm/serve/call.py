"""One RPC's work: it runs in a thread and can be cancelled from any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from litert_lm._proto import vllm_generate_pb2 as schema
from litert_lm.errors import CancelledError, InvalidArgumentError
from litert_lm.generate.chunk_iterator import ChunkIterator
from litert_lm.generate.response import GenerateResponse, join
from litert_lm.serve.served import Served
from litert_lm.serve.vllm_messages import (
    Reply,
    options_of,
    parse_request,
    prompt_of,
    trailing_metadata,
)

__all__ = ["Call"]


class Call:
    """A request, from its bytes to the messages that answer it.

    Args:
        served: the model.
        data: a serialized vllm.GenerateRequest.

    Attributes:
        trailing_metadata: what the client is told beside the answer: whether the state
            that its ``kv_transfer_params`` name was imported or computed again.
    """

    def __init__(self, served: Served, data: bytes) -> None:
        self._served = served
        self._data = data
        self._chunks: ChunkIterator[GenerateResponse] | None = None
        self._is_cancelled = False
        self.trailing_metadata: tuple[tuple[str, str], ...] = ()

    def cancel(self) -> None:
        """End the work at the next token; harmless when it has ended."""
        self._is_cancelled = True
        if self._chunks is not None:
            self._chunks.close()

    def answer(self) -> bytes:
        """Do the work; the serialized vllm.GenerateResponse that holds all of it."""
        message = parse_request(self._data)
        if message.sampling.num_sequences > 1:
            raise InvalidArgumentError(
                f"num_sequences is {message.sampling.num_sequences}, but a reply of "
                "Generate holds one sequence; call GenerateStream, or set 1."
            )
        answer = join(self._generate(message))
        data: bytes = Reply.to(message).whole(answer).SerializeToString()
        return data

    def stream(self, put: Callable[[schema.GenerateResponse, int], None]) -> None:
        """Do the work; each message goes to `put` with its size in bytes."""
        message = parse_request(self._data)
        reply = Reply.to(message)
        for chunk in self._generate(message):
            for news in reply.messages(chunk):
                put(news, news.ByteSize())

    def _generate(self, message: schema.GenerateRequest) -> Iterator[GenerateResponse]:
        self._check()
        engine = self._served.of_name(message.model)
        prompt, options = prompt_of(message), options_of(message)
        with self._served.metrics.request() as figures:
            self._chunks = engine.generate_stream(prompt, **options)
            self._check()
            for chunk in self._chunks:
                figures.add(chunk)
                if chunk.prompt_info is not None:
                    self.trailing_metadata = trailing_metadata(chunk.prompt_info)
                yield chunk
            self._check()

    def _check(self) -> None:
        if self._is_cancelled:
            raise CancelledError("The client has cancelled the request.")
