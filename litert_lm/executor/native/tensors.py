"""Host memory that LiteRT reads and writes in place."""

from __future__ import annotations

import ctypes as c
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ExecutionError
from litert_lm.executor.native import runtime

__all__ = ["TensorBuffer", "TensorSpec", "allocate", "destroy_with"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and dtype of one signature input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def allocate(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A C-contiguous array of zeros whose memory LiteRT can use in place."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(nbytes + runtime.ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % runtime.ALIGNMENT
    return raw[offset : offset + nbytes].view(dtype).reshape(shape)


class TensorBuffer:
    """LiteRT's view of a numpy array: the same memory, nothing copied."""

    __slots__ = ("__weakref__", "array", "handle")

    def __init__(self, array: npt.NDArray[Any]) -> None:
        address = array.ctypes.data
        if not array.flags.c_contiguous or address % runtime.ALIGNMENT:
            raise ExecutionError("A tensor buffer needs contiguous, aligned memory.")
        library = runtime.litert()
        ranked = runtime.ranked_type(array.dtype, array.shape)
        self.array = array
        self.handle = library.create(
            "CreateTensorBufferFromHostMemory",
            c.byref(ranked),
            address,
            array.nbytes,
            None,
        )
        destroy_with(self, library.destroy["TensorBuffer"], self.handle)


def destroy_with(
    owner: object, destroy: Any, handle: c.c_void_p, needed: object = None
) -> Any:
    """Destroy `handle` when `owner` is collected; returns the finalizer.

    `needed` is kept alive until then. Not at interpreter exit: the process frees all,
    and the order is undefined there.
    """

    def finish(handle: c.c_void_p, needed: object) -> None:
        destroy(handle)

    finalizer = weakref.finalize(owner, finish, handle, needed)
    finalizer.atexit = False
    return finalizer
