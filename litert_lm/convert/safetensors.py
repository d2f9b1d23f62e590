"""Folders with Hugging Face safetensors as checkpoints. Reads rows, never the whole."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from litert_lm.bundle.safetensors import TensorEntry, TensorHeader, open_header
from litert_lm.convert.checkpoint import Checkpoint, FileRows, FloatArray, Rows
from litert_lm.convert.hf_tokenizer import chat_template, read_tokenizer
from litert_lm.convert.json_file import read_json
from litert_lm.errors import ConversionError, ModelFileError

__all__ = ["open_safetensors"]

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


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
    header = open_header(path)
    return {
        name: _rows(path, name, entry, header) for name, entry in header.tensors.items()
    }


def _rows(path: Path, name: str, entry: TensorEntry, header: TensorHeader) -> Rows:
    dtype, shape, begin, end = entry.dtype, entry.shape, entry.begin, entry.end
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ConversionError(
            f"Weight '{name}' of '{path}' has dtype {dtype!r}; {', '.join(_DTYPES)} "
            "can be converted."
        )
    width, decode = _DTYPES[dtype]
    if end - begin != math.prod(shape) * width or header.start + end > header.size:
        raise ModelFileError(
            f"'{path}' is damaged: weight '{name}' of shape {list(shape)} does not "
            f"fit its bytes {begin} to {end}. Fetch it again."
        )
    row_bytes = (shape[-1] if shape else 1) * width
    return FileRows(path, shape, header.start + begin, row_bytes, decode)


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
