"""Weights as TFLite stores them: float32, int8 per channel, int4 in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from litert_lm.convert.checkpoint import FloatArray
from litert_lm.convert.tflite import ArrayPayload, Payload
from litert_lm.errors import InvalidArgumentError

__all__ = ["Weight", "pack_int4", "quantize_int4", "quantize_int8", "weight_of"]

INT4_BLOCK = 32


@dataclass(frozen=True, eq=False)
class Weight:
    """A constant tensor that subgraphs share.

    Args:
        shape: sizes of the axes; the first is the output channel.
        dtype: number of the schema's TensorType.
        payload: the bytes as TFLite stores them.
        scales: f32[O] for int8 per channel, f16[O, I / block] for int4 in blocks of
            the input axis, None for float.
    """

    shape: tuple[int, ...]
    dtype: int
    payload: Payload
    scales: NDArray[Any] | None = None


def quantize_int8(rows: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Symmetric int8 per row of f32[O, I]: values in -127..127 and scales f32[O]."""
    largest = np.abs(rows).max(axis=1)
    scales = (np.maximum(largest, np.float32(1e-6)) / np.float32(127)).astype(
        np.float32
    )
    values = np.rint(rows / scales[:, None])
    return np.clip(values, -127, 127).astype(np.int8), scales


def quantize_int4(
    rows: FloatArray, block: int = INT4_BLOCK
) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Symmetric int4 in blocks of the input axis of f32[O, I].

    Returns values i8[O, I] in -7..7 and scales f16[O, I / block]. Rounding to nearest
    with scale max / 7: clipping outliers measured worse. A scale above 65504 is inf.
    """
    outputs, inputs = rows.shape
    if inputs % block:
        raise InvalidArgumentError(
            f"int4 blocks of {block} do not divide rows of {inputs} weights; use int8."
        )
    blocks = rows.reshape(outputs, inputs // block, block)
    largest = np.maximum(np.abs(blocks).max(axis=2), np.float32(1e-4))
    with np.errstate(over="ignore"):
        scales = (largest / np.float32(7)).astype(np.float16)
    values = np.rint(blocks / scales.astype(np.float32)[..., None])
    return np.clip(values, -7, 7).astype(np.int8).reshape(outputs, inputs), scales


def pack_int4(values: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Two values per byte, the first in the low half, as TFLite's INT4 wants it."""
    pairs = values.reshape(-1, 2).view(np.uint8)
    packed: NDArray[np.uint8] = np.bitwise_or(
        pairs[:, 0] & np.uint8(0xF), pairs[:, 1] << np.uint8(4)
    )
    return packed


def weight_of(array: FloatArray, kind: str = "f32") -> Weight:
    """A weight held in memory; `kind` is "f32", "int8" or "int4"."""
    if kind == "f32":
        return Weight(array.shape, schema.TensorType.FLOAT32, ArrayPayload(array))
    if kind == "int8":
        values, scales = quantize_int8(array)
        return Weight(array.shape, schema.TensorType.INT8, ArrayPayload(values), scales)
    if kind == "int4":
        nibbles, block_scales = quantize_int4(array)
        packed = ArrayPayload(pack_int4(nibbles))
        return Weight(array.shape, schema.TensorType.INT4, packed, block_scales)
    raise InvalidArgumentError(f"weights must be f32, int8 or int4, got {kind!r}.")
