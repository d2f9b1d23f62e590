"""Turns rows of a checkpoint into the weights of a TFLite file, a few at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from litert_lm.convert.checkpoint import Rows
from litert_lm.convert.quantize import (
    Weight,
    pack_int4,
    quantize_int4,
    quantize_int8,
    weight_of,
)
from litert_lm.errors import ConversionError, StorageError

__all__ = ["Spool", "WeightMaker"]

# Weights decoded at a time; bounds the memory, whatever the model's size.
_CHUNK_WEIGHTS = 1 << 20
_COPY_BYTES = 4 << 20


class Spool:
    """A nameless temporary file for weights until the model is written.

    It lies in `folder`: the same disk as the output, and gone with the process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_bytes = 0
        with self._storage_errors():
            # Unbuffered: a full disk shows at the write and not when it is closed.
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - see __exit__
                dir=folder, buffering=0
            )

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, values: NDArray[Any]) -> None:
        """Store the bytes of a contiguous array behind those stored before."""
        left = memoryview(values).cast("B")  # type: ignore[arg-type]
        with self._storage_errors():
            self._file.seek(self.num_bytes)
            while left:
                written = self._file.write(left)
                self.num_bytes += written
                left = left[written:]

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on, fewer at the end."""
        with self._storage_errors():
            self._file.seek(offset)
            return self._file.read(size)

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"Cannot keep converted weights in '{self.folder}': "
                f"{error.strerror or error}. Check the folder and its free space."
            ) from error


@dataclass(frozen=True, eq=False)
class _SpooledPayload:
    """Bytes in the spool file."""

    spool: Spool
    offset: int
    num_bytes: int

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        end = self.offset + self.num_bytes
        for offset in range(self.offset, end, _COPY_BYTES):
            data = self.spool.read(offset, min(end - offset, _COPY_BYTES))
            yield np.frombuffer(data, np.uint8)


@dataclass(frozen=True, eq=False)
class _FloatPayload:
    """Rows read from the checkpoint when the file is written."""

    rows: Rows
    name: str

    @property
    def num_bytes(self) -> int:
        return 4 * int(np.prod(self.rows.shape, dtype=np.int64))

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        for piece in _pieces(self.rows, self.name):
            yield np.ascontiguousarray(piece).reshape(-1).view(np.uint8)


class WeightMaker:
    """Makes weights, quantised ones through a temporary file.

    Args:
        spool: holds what must be stored before the model is written.
        count: called with the number of weights done.
    """

    def __init__(self, spool: Spool, count: Callable[[int], None]) -> None:
        self._spool = spool
        self._count = count

    def vector(
        self, parts: Sequence[Rows], name: str, first_scale: float = 1.0
    ) -> Weight:
        """Vectors one after another, the first times `first_scale`: f32 in memory."""
        with np.errstate(all="ignore"):
            pieces = [part.read(0, 1).reshape(-1) for part in parts]
            pieces[0] = pieces[0] * np.float32(first_scale)
        values = np.concatenate(pieces)
        if not np.isfinite(values).all():
            raise _not_finite(name)
        self._count(values.size)
        return weight_of(values)

    def matrix(self, rows: Rows, name: str, kind: str) -> Weight:
        """A matrix [O, I]; `kind` is "f32", "int8" or "int4"."""
        if kind == "f32":
            payload = _FloatPayload(rows, name)
            self._count(payload.num_bytes // 4)
            return Weight(rows.shape, schema.TensorType.FLOAT32, payload)
        is_int4 = kind == "int4"
        offset = self._spool.num_bytes
        scales: list[NDArray[Any]] = []
        quantize = quantize_int4 if is_int4 else quantize_int8
        for piece in _pieces(rows, name):
            values, piece_scales = quantize(piece)
            if not np.isfinite(piece_scales).all():
                raise _not_finite(name)
            self._spool.append(pack_int4(values) if is_int4 else values)
            scales.append(piece_scales)
            self._count(piece.size)
        payload_bytes = self._spool.num_bytes - offset
        return Weight(
            rows.shape,
            schema.TensorType.INT4 if is_int4 else schema.TensorType.INT8,
            _SpooledPayload(self._spool, offset, payload_bytes),
            np.concatenate(scales),
        )


def _pieces(rows: Rows, name: str) -> Iterator[NDArray[np.float32]]:
    """A few rows after the other: f32[n, I], all of them numbers."""
    height, width = rows.shape
    step = max(1, _CHUNK_WEIGHTS // width)
    for start in range(0, height, step):
        # What overflows here is found by the check below.
        with np.errstate(all="ignore"):
            piece = rows.read(start, min(start + step, height))
        if not np.isfinite(piece).all():
            raise _not_finite(name)
        yield piece


def _not_finite(name: str) -> ConversionError:
    return ConversionError(
        f"Weight '{name}' holds NaN or numbers that are too large; the checkpoint is "
        "damaged."
    )
