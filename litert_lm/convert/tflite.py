"""The frame of a TFLite model: buffers, operator codes, subgraphs, signatures, file."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from litert_lm.errors import InvalidArgumentError, StorageError

__all__ = ["ArrayPayload", "ModelAuthor", "Payload", "TFLiteFile"]

# Weights that lie outside the FlatBuffer start on cache lines.
WEIGHT_ALIGNMENT = 64
_DATA_ALIGNMENT = 16  # the schema's force_align of Buffer.data
_OFFSET_SLOT, _SIZE_SLOT = 6, 8  # vtable slots of Buffer.offset and Buffer.size


class Payload(Protocol):
    """Bytes of one buffer, produced when the file is written."""

    @property
    def num_bytes(self) -> int:
        """Exact number of bytes that `chunks` yields in all."""

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes in order, in pieces of a size that fits in memory."""


@dataclass(frozen=True, eq=False)
class ArrayPayload:
    """The bytes of an array that is held in memory."""

    array: NDArray[Any]

    @property
    def num_bytes(self) -> int:
        return int(self.array.nbytes)

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        yield np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class TFLiteFile:
    """A finished model: `num_bytes` in all, written piece by piece from `chunks`."""

    flatbuffer: bytes
    payloads: tuple[Payload, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Size of the file in bytes."""
        return _payload_offsets(len(self.flatbuffer), self.payloads)[-1]

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The file's bytes in order; at most one weight is held at a time."""
        yield self.flatbuffer
        position = len(self.flatbuffer)
        offsets = _payload_offsets(position, self.payloads)
        for payload, offset in zip(self.payloads, offsets, strict=False):
            yield bytes(offset - position)
            for chunk in _checked_chunks(payload):
                yield chunk.data
            position = offset + payload.num_bytes

    def to_bytes(self) -> bytes:
        """The whole file in memory."""
        return b"".join(bytes(chunk) for chunk in self.chunks())

    def save(self, path: Path) -> None:
        """Write the file to `path`; raises StorageError when the disk refuses."""
        try:
            with path.open("wb") as file:
                file.writelines(self.chunks())
        except OSError as error:
            raise StorageError(
                f"Cannot write the model to '{path}': {error.strerror}. Free some "
                "space or choose another folder."
            ) from error


class ModelAuthor:
    """Collects what all subgraphs share, then packs the model.

    Args:
        external_from_bytes: buffers of at least this many bytes are stored after the
            FlatBuffer (Buffer.offset and Buffer.size of the TFLite schema), which
            keeps them out of memory and allows models above 2 GiB; None keeps
            everything inside the FlatBuffer.
    """

    def __init__(self, external_from_bytes: int | None = None) -> None:
        self._external_from_bytes = external_from_bytes
        self._external: list[tuple[int, Payload]] = []
        self._opcodes: dict[tuple[int, str | None, int], int] = {}
        self._payload_buffers: dict[int, tuple[int, Payload]] = {}
        self._array_payloads: dict[int, ArrayPayload] = {}
        self._content_buffers: dict[bytes, int] = {}
        self._quantizations: dict[int, _SharedQuantization] = {}
        self._model = schema.ModelT(
            version=3,
            description="litert_lm",
            operatorCodes=[],
            subgraphs=[],
            buffers=[schema.BufferT()],
            signatureDefs=[],
        )

    def opcode_index(self, operator: str, custom: str | None, version: int) -> int:
        """Index of an operator code, added on first use.

        `operator` is a name of the schema's BuiltinOperator, such as "ADD".
        """
        code = _builtin_operator(operator)
        key = (code, custom, version)
        if key not in self._opcodes:
            self._opcodes[key] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(
                schema.OperatorCodeT(
                    # Readers older than the wide field look at the narrow one.
                    deprecatedBuiltinCode=min(code, 127),
                    customCode=custom,
                    version=version,
                    builtinCode=code,
                )
            )
        return self._opcodes[key]

    def payload_buffer(self, payload: Payload) -> int:
        """Index of the buffer of `payload`; the same object gives the same buffer."""
        known = self._payload_buffers.get(id(payload))
        if known is not None:
            return known[0]
        limit = self._external_from_bytes
        if limit is not None and payload.num_bytes >= max(limit, 1):
            # Fields of value 0 are left out of a FlatBuffer: 1 reserves their room.
            index = self._add_buffer(schema.BufferT(offset=1, size=1))
            self._external.append((index, payload))
        else:
            pieces = list(_checked_chunks(payload))
            index = self._add_buffer(_AlignedBuffer(np.concatenate(pieces)))
        self._payload_buffers[id(payload)] = (index, payload)
        return index

    def array_buffer(self, array: NDArray[Any]) -> int:
        """Index of the buffer of `array`; the same object gives the same buffer."""
        made = ArrayPayload(array)
        return self.payload_buffer(self._array_payloads.setdefault(id(array), made))

    def content_buffer(self, array: NDArray[Any]) -> int:
        """Index of a buffer with the bytes of `array`; equal bytes share a buffer."""
        content = np.ascontiguousarray(array).tobytes()
        if content not in self._content_buffers:
            data = np.frombuffer(content, np.uint8)
            self._content_buffers[content] = self._add_buffer(_AlignedBuffer(data))
        return self._content_buffers[content]

    def channel_quantization(self, scales: NDArray[np.float32]) -> Any:
        """Quantisation by the scales [O] of axis 0; stored once for all subgraphs."""
        made = _SharedQuantization(scales)
        return self._quantizations.setdefault(id(scales), made)

    def _add_buffer(self, buffer: Any) -> int:
        self._model.buffers.append(buffer)
        return len(self._model.buffers) - 1

    def add_subgraph(self, subgraph: Any) -> int:
        """Append a SubGraphT of the schema and return its index."""
        self._model.subgraphs.append(subgraph)
        return len(self._model.subgraphs) - 1

    def add_signature(
        self,
        key: str,
        subgraph_index: int,
        inputs: Iterable[tuple[str, int]],
        outputs: Iterable[tuple[str, int]],
    ) -> None:
        """Name a subgraph's inputs and outputs: pairs of name and tensor index."""
        self._model.signatureDefs.append(
            schema.SignatureDefT(
                signatureKey=key,
                subgraphIndex=subgraph_index,
                inputs=[_tensor_map(*pair) for pair in inputs],
                outputs=[_tensor_map(*pair) for pair in outputs],
            )
        )

    def finish(self) -> TFLiteFile:
        """Pack the model; later changes to the author do not reach the result."""
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self._model.Pack(builder), file_identifier=b"TFL3")
        packed = bytearray(builder.Output())
        payloads = tuple(payload for _, payload in self._external)
        offsets = _payload_offsets(len(packed), payloads)
        root = schema.Model.GetRootAs(packed, 0)
        for (index, payload), offset in zip(self._external, offsets, strict=False):
            _patch_u64(packed, root.Buffers(index), _OFFSET_SLOT, offset)
            _patch_u64(packed, root.Buffers(index), _SIZE_SLOT, payload.num_bytes)
        return TFLiteFile(bytes(packed), payloads)


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A BufferT whose data keeps the alignment that the schema asks for.

    The generated Pack leaves bytes at 4-byte alignment.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None:
        super().__init__(data=data)

    def Pack(self, builder: flatbuffers.Builder) -> Any:
        builder.StartVector(1, self.data.size, _DATA_ALIGNMENT)
        head = builder.head - self.data.size
        builder.Bytes[head : builder.head] = self.data.tobytes()
        builder.head = head
        builder.vectorNumElems = self.data.size
        vector = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, vector)
        return schema.BufferEnd(builder)


class _SharedQuantization(schema.QuantizationParametersT):  # type: ignore[misc]
    """Parameters that are packed once and then pointed at.

    Several signatures would otherwise repeat scale and zero point of every row.
    """

    def __init__(self, scales: NDArray[np.float32]) -> None:
        zeros = np.zeros(len(scales), np.int64)
        super().__init__(scale=scales, zeroPoint=zeros, quantizedDimension=0)
        self._packed: tuple[flatbuffers.Builder, Any] | None = None

    def Pack(self, builder: flatbuffers.Builder) -> Any:
        if self._packed is None or self._packed[0] is not builder:
            self._packed = (builder, super().Pack(builder))
        return self._packed[1]


def _builtin_operator(name: str) -> int:
    code = getattr(schema.BuiltinOperator, name, None)
    if not isinstance(code, int):
        raise InvalidArgumentError(
            f"TFLite has no operator {name!r}; use a name of the schema's "
            "BuiltinOperator, such as 'FULLY_CONNECTED'."
        )
    return code


def _tensor_map(name: str, tensor_index: int) -> Any:
    return schema.TensorMapT(name=name, tensorIndex=tensor_index)


def _payload_offsets(start: int, payloads: Sequence[Payload]) -> list[int]:
    """File offset of every payload, then the end of the file."""
    offsets = []
    position = start
    for payload in payloads:
        position += -position % WEIGHT_ALIGNMENT
        offsets.append(position)
        position += payload.num_bytes
    return [*offsets, position]


def _checked_chunks(payload: Payload) -> Iterator[NDArray[np.uint8]]:
    """The payload's chunks; raises when they do not add up to its size."""
    written = 0
    for chunk in payload.chunks():
        written += chunk.nbytes
        yield chunk
    if written != payload.num_bytes:
        raise InvalidArgumentError(
            f"A weight gave {written} bytes, but {payload.num_bytes} were announced."
        )


def _patch_u64(packed: bytearray, table: Any, slot: int, value: int) -> None:
    """Overwrite a 64-bit field of a packed table."""
    position = table._tab.Pos + table._tab.Offset(slot)
    struct.pack_into("<Q", packed, position, value)
