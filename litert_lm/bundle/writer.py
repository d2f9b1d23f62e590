"""New .litertlm files: sections streamed behind a header, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from litert_lm.bundle.atomic import NewFile, replacing
from litert_lm.bundle.header import Entry, build_header
from litert_lm.bundle.sections import MODEL_TYPE_PREFIX, SectionType, Value
from litert_lm.errors import InvalidArgumentError, StorageError

if TYPE_CHECKING:
    from litert_lm._proto.executor_metadata_pb2 import ExecutorMetadata
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata

__all__ = ["ALIGNMENT", "BinarySource", "write_bundle"]

BinarySource: TypeAlias = (
    bytes | bytearray | memoryview | str | os.PathLike[str] | Iterable[Any]
)
"""Bytes, the path of a file that holds them, or an iterable of pieces of them."""

ALIGNMENT = 16 * 1024
"""Every section begins at a multiple of it."""

_CHUNK = 4 << 20


@dataclass(frozen=True)
class _Part:
    data_type: SectionType
    source: BinarySource
    items: Mapping[str, Value]


def write_bundle(
    path: str | os.PathLike[str],
    *,
    metadata: LlmMetadata,
    tokenizer: tuple[str, bytes | memoryview],
    models: Mapping[str, BinarySource],
    executor_metadata: ExecutorMetadata | None = None,
    system_metadata: Mapping[str, Value] | None = None,
    weights: Mapping[str, BinarySource] | None = None,
    section_items: Mapping[str, Mapping[str, Value]] | None = None,
) -> None:
    """Writes a .litertlm file in format version 1.7.

    The file appears at `path` when it is complete; after a failure nothing is left and
    an older file is untouched. The same arguments give the same bytes: the property
    ``uuid`` is made from the content unless `system_metadata` has one.

    Args:
        path: of the new file; an existing one is replaced.
        metadata: what the file says about its language model.
        tokenizer: ``sentencepiece`` and a serialized model, or ``huggingface`` and the
            text of a tokenizer.json, which is stored compressed.
        models: TFLite models by their role, such as ``prefill_decode``.
        executor_metadata: what the model's state tensors mean.
        system_metadata: properties of the file.
        weights: external weights by the role of their model.
        section_items: further properties of models and their weights by role, such as
            ``backend_constraint``.

    Raises:
        InvalidArgumentError: a wrong type, or properties too long for the header.
        StorageError: a source cannot be read or the file cannot be stored.
    """
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata

    if not isinstance(metadata, LlmMetadata):
        raise InvalidArgumentError(
            f"metadata must be LlmMetadata, got {type(metadata).__name__}."
        )
    if not models:
        raise InvalidArgumentError("models is empty; give at least prefill_decode.")
    more = section_items or {}
    parts = [
        _Part(SectionType.LLM_METADATA, metadata.SerializeToString(), {}),
        *_executor_part(executor_metadata),
        _tokenizer_part(*tokenizer),
        *_model_parts(SectionType.TFLITE_MODEL, models, more),
        *_model_parts(SectionType.TFLITE_WEIGHTS, weights or {}, more),
    ]
    _write(Path(path), dict(system_metadata or {}), parts)


def _write(path: Path, system: dict[str, Value], parts: list[_Part]) -> None:
    has_name = "uuid" in system
    system.setdefault("uuid", str(uuid.UUID(int=0)))
    entries = [Entry(part.data_type, part.items, 1, 1) for part in parts]
    position = len(build_header(system, entries))
    digest = hashlib.sha256()
    with replacing(path) as file:
        for index, part in enumerate(parts):
            begin = -(-position // ALIGNMENT) * ALIGNMENT
            position = _write_section(file, part, begin, digest)
            entries[index] = entries[index]._replace(begin=begin, end=position)
        if not has_name:
            system["uuid"] = str(uuid.UUID(bytes=digest.digest()[:16], version=5))
        file.write(memoryview(build_header(system, entries)), 0)


def _write_section(file: NewFile, part: _Part, begin: int, digest: Any) -> int:
    """Stores the section from `begin` on; the position after it."""
    position = begin
    digest.update(part.data_type.to_bytes(1, "little"))
    for chunk in _chunks(part.source):
        file.write(chunk, position)
        digest.update(chunk)
        position += len(chunk)
    return position


def _chunks(source: BinarySource) -> Iterator[memoryview]:
    """The bytes of `source` in pieces, none empty."""
    if isinstance(source, str | os.PathLike):
        yield from _file_chunks(Path(source))
        return
    for piece in _pieces(source):
        try:
            view = memoryview(piece)
            if view.nbytes:
                yield view.cast("B")
        except TypeError as error:
            raise InvalidArgumentError(
                f"a section holds {type(piece).__name__}, which is not contiguous "
                f"bytes: {error}."
            ) from None


def _pieces(source: Any) -> Iterable[Any]:
    """`source` as one piece where it is bytes itself."""
    try:
        return [memoryview(source)]
    except TypeError:
        pass
    try:
        pieces: Iterable[Any] = iter(source)
        return pieces
    except TypeError:
        raise InvalidArgumentError(
            f"a section's content must be bytes, a path or pieces of bytes, "
            f"got {type(source).__name__}."
        ) from None


def _file_chunks(path: Path) -> Iterator[memoryview]:
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield memoryview(chunk)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror}; check the path and permissions."
        ) from error


def _executor_part(metadata: ExecutorMetadata | None) -> Iterator[_Part]:
    if metadata is not None:
        yield _Part(SectionType.EXECUTOR_METADATA, metadata.SerializeToString(), {})


def _tokenizer_part(kind: str, data: bytes | memoryview) -> _Part:
    if kind == "sentencepiece":
        return _Part(SectionType.SENTENCEPIECE_TOKENIZER, data, {})
    if kind == "huggingface":
        size = struct.pack("<Q", len(data))
        return _Part(
            SectionType.HUGGINGFACE_TOKENIZER, [size, zlib.compress(data, 9)], {}
        )
    raise InvalidArgumentError(
        f"tokenizer is of kind {kind!r}; it must be sentencepiece or huggingface."
    )


def _model_parts(
    data_type: SectionType,
    sources: Mapping[str, BinarySource],
    more: Mapping[str, Mapping[str, Value]],
) -> Iterator[_Part]:
    for role, source in sources.items():
        named: dict[str, Value] = {"model_type": MODEL_TYPE_PREFIX + role}
        yield _Part(data_type, source, {**more.get(role, {}), **named})
