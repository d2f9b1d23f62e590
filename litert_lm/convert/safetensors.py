"""Folders with Hugging Face safetensors as checkpoints. Reads rows, never the whole."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from litert_lm.convert.checkpoint import Checkpoint, FileRows, FloatArray, Rows
from litert_lm.convert.hf_tokenizer import chat_template, read_tokenizer
from litert_lm.convert.json_file import read_json
from litert_lm.errors import ConversionError, ModelFileError, StorageError

__all__ = ["open_safetensors"]

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


def open_safetensors(folder: Path, file: Path | None = None) -> Checkpoint:
    """Read a checkpoint's config and headers; weights are read when asked for.

    The folder holds config.json, model.safetensors or its parts with
    model.safetensors.index.json, and tokenizer.json or tokenizer.model. `file` is the
    one with all weights where it has another name.

    Raises:
        ModelFileError: a file is damaged.
        ConversionError: something is missing or cannot be converted.
    """
    config = read_json(folder / "config.json")
    generation = folder / "generation_config.json"
    tensors: dict[str, Rows] = {}
    for path in [file] if file else _weight_files(folder):
        tensors |= _read_header(path)
    tokenizer_config = folder / "tokenizer_config.json"
    settings = read_json(tokenizer_config) if tokenizer_config.is_file() else {}
    generation_config = read_json(generation) if generation.is_file() else {}
    return Checkpoint(
        path=folder,
        config=config,
        tensors=tensors,
        tokenizer=read_tokenizer(folder, settings, config, generation_config),
        chat_template=chat_template(folder, settings),
        generation=generation_config,
    )


def _weight_files(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.is_file():
        single = folder / _SINGLE
        if single.is_file():
            return [single]
        raise ConversionError(
            f"'{folder}' has neither {_SINGLE} nor {_INDEX}; other weight formats "
            "must be saved as safetensors first."
        )
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ModelFileError(f"'{index}' has no weight_map.")
    return [_part(folder, name) for name in sorted({str(n) for n in names.values()})]


def _part(folder: Path, name: str) -> Path:
    """A part named by the index; never a file of another folder."""
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise ConversionError(
            f"'{folder}' lacks the weight file {name!r} that its index names."
        )
    return path


def _read_header(path: Path) -> dict[str, Rows]:
    """Weights of one file, each checked to lie inside it."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size - 8, _MAX_HEADER_BYTES):
                raise ModelFileError(
                    f"'{path}' is damaged: a header of {length} bytes does not fit "
                    f"into {size}. Fetch it again."
                )
            header = file.read(length)
    except OSError as error:
        raise StorageError(f"Cannot read '{path}': {error}.") from error
    entries = _parse(path, header)
    entries.pop("__metadata__", None)
    start = 8 + length
    return {name: _rows(path, name, e, start, size) for name, e in entries.items()}


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


def _rows(path: Path, name: str, entry: object, start: int, size: int) -> Rows:
    dtype, shape, begin, end = _fields(path, name, entry)
    if dtype not in _DTYPES:
        raise ConversionError(
            f"Weight '{name}' of '{path}' has dtype {dtype!r}; {', '.join(_DTYPES)} "
            "can be converted."
        )
    width, decode = _DTYPES[dtype]
    if end - begin != math.prod(shape) * width or start + end > size:
        raise ModelFileError(
            f"'{path}' is damaged: weight '{name}' of shape {list(shape)} does not "
            f"fit its bytes {begin} to {end}. Fetch it again."
        )
    row_bytes = (shape[-1] if shape else 1) * width
    return FileRows(path, shape, start + begin, row_bytes, decode)


def _fields(
    path: Path, name: str, entry: object
) -> tuple[object, tuple[int, ...], int, int]:
    """dtype, shape and data_offsets of an entry, each of the right type."""
    values = entry if isinstance(entry, Mapping) else {}
    shape, offsets = values.get("shape"), values.get("data_offsets")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ModelFileError(
            f"'{path}' is damaged: weight '{name}' has no proper shape and offsets."
        )
    return values.get("dtype"), tuple(shape), offsets[0], offsets[1]


def _are_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0
        for item in value
    )


def _from_float32(raw: NDArray[np.uint8]) -> FloatArray:
    return raw.view("<f4").astype(np.float32, copy=False)


def _from_float16(raw: NDArray[np.uint8]) -> FloatArray:
    return raw.view("<f2").astype(np.float32)


def _from_bfloat16(raw: NDArray[np.uint8]) -> FloatArray:
    """bfloat16 is the upper half of a float32."""
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


_DTYPES = {
    "F32": (4, _from_float32),
    "F16": (2, _from_float16),
    "BF16": (2, _from_bfloat16),
}
