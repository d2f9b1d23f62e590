"""Headers of safetensors files: which tensors lie where.

The format, by Hugging Face: eight bytes with the header's length, the header as JSON,
then the bytes of all tensors, little-endian and row by row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from litert_lm.errors import ModelFileError, read_errors

__all__ = ["METADATA", "TensorEntry", "TensorHeader", "open_header", "read_header"]

METADATA = "__metadata__"
"""The header's entry for texts of the writer's own."""

_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as the header tells of it; nothing but the types is checked.

    Attributes:
        dtype: the format's name of the element type, whatever the file says.
        shape: sizes of the dimensions.
        begin, end: its bytes, counted from the first tensor's.
    """

    dtype: object
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """What a safetensors file says of itself.

    Attributes:
        metadata: texts by name; empty where the file has none or other values.
        tensors: by name.
        start: position of the first tensor's bytes in the file.
        size: bytes of the file.
    """

    metadata: Mapping[str, str]
    tensors: Mapping[str, TensorEntry]
    start: int
    size: int


def open_header(path: Path) -> TensorHeader:
    """The header of a file.

    Raises:
        ModelFileError: the header is damaged.
        StorageError: the file cannot be read.
    """
    with read_errors(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            return read_header(path, file, size)


def read_header(
    path: Path, file: BinaryIO, size: int, max_bytes: int = _MAX_HEADER_BYTES
) -> TensorHeader:
    """The header of a file that is open at its beginning and has `size` bytes.

    Args:
        path: what errors name.
        max_bytes: of the header.

    Raises:
        ModelFileError: the header is damaged.
    """
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if length > min(size - _LENGTH_BYTES, max_bytes):
        raise ModelFileError(
            f"'{path}' is damaged: a header of {length} bytes does not fit "
            f"into {size}. Fetch it again."
        )
    entries = _parse(path, file.read(length))
    return TensorHeader(
        metadata=_texts(entries.pop(METADATA, None)),
        tensors={name: _entry(path, name, each) for name, each in entries.items()},
        start=_LENGTH_BYTES + length,
        size=size,
    )


def _parse(path: Path, header: bytes) -> dict[str, Any]:
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"'{path}' is damaged: its header is not JSON. Fetch it again."
        ) from error
    if not isinstance(entries, dict):
        raise ModelFileError(f"'{path}' is damaged: its header is not an object.")
    return entries


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _entry(path: Path, name: str, entry: object) -> TensorEntry:
    values = entry if isinstance(entry, Mapping) else {}
    shape, offsets = values.get("shape"), values.get("data_offsets")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ModelFileError(
            f"'{path}' is damaged: tensor '{name}' has no proper shape and offsets."
        )
    return TensorEntry(values.get("dtype"), tuple(shape), offsets[0], offsets[1])


def _are_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0
        for item in value
    )
