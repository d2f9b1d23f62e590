"""The format of saved sessions: safetensors with token ids, entries and checks.

The tensor ``token_ids`` (I32) holds the ids, ``state.NAME`` the entries of each state
of the model: as many as are stored along the axis that counts tokens, the whole state
where it has none or is a ring. ``__metadata__`` holds, as texts:

    format, version   "litert_lm.session" and "1"
    model             SHA-256 of the bundle, in hexadecimal
    num_stored        tokens whose entries are stored
    cache_length, cache_reserved
                      see SequenceState
    sha256            of the header, this text left out, as JSON with sorted keys and
                      without spaces, and of all tensors' bytes behind it

and texts of the session's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from litert_lm.bundle.safetensors import METADATA, TensorEntry
from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.kv_cache import KVCache, entries, is_cut
from litert_lm.executor.layout.layout import State, state_shape

__all__ = [
    "FORMAT",
    "IDS",
    "VERSION",
    "Part",
    "bytes_of",
    "canonical",
    "header_of",
    "parts_of",
    "placed",
    "stored",
]

FORMAT, VERSION = "litert_lm.session", "1"
IDS, _STATE = "token_ids", "state."
_ALIGNMENT = 64  # bytes, of the first tensor
_DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "bool": "BOOL",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32)},
}


@dataclass(frozen=True)
class Part:
    """A tensor of the file: a state, or None for the token ids."""

    name: str
    state: State | None
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor in the file."""
        kind = np.dtype(np.int32) if self.state is None else self.state.dtype
        return math.prod(self.shape) * kind.itemsize


def parts_of(
    executor: Executor, num_ids: int, num_stored: int, length: int
) -> list[Part]:
    """The file's tensors in their order; without states where none were used."""
    parts = [Part(IDS, None, "I32", (num_ids,))]
    states = executor.layout.states.values() if length >= 0 else ()
    for state in states:
        shape = state_shape(state, num_stored)
        dtype = _DTYPES[state.dtype.name]
        parts.append(Part(_STATE + state.name, state, dtype, shape))
    return parts


def placed(parts: list[Part]) -> dict[str, TensorEntry]:
    """Where each tensor lies, one behind the other."""
    entries_by_name, position = {}, 0
    for part in parts:
        end = position + part.nbytes
        entry = TensorEntry(part.dtype, part.shape, position, end)
        entries_by_name[part.name], position = entry, end
    return entries_by_name


def canonical(metadata: Mapping[str, str], tensors: Mapping[str, TensorEntry]) -> bytes:
    """What the checksum is of, before the tensors' bytes."""
    rows = {name: asdict(entry) for name, entry in tensors.items()}
    whole = {METADATA: dict(metadata), **rows}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def header_of(metadata: Mapping[str, str], tensors: Mapping[str, TensorEntry]) -> bytes:
    """The bytes before the first tensor's."""
    rows = {
        name: {
            "dtype": entry.dtype,
            "shape": entry.shape,
            "data_offsets": [entry.begin, entry.end],
        }
        for name, entry in tensors.items()
    }
    text = json.dumps({METADATA: metadata, **rows}).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def stored(
    cache: KVCache, state: State, num_stored: int | None = None
) -> npt.NDArray[Any]:
    """The part of a state's array that is kept, for `num_stored` entries or all."""
    count = cache.num_tokens if num_stored is None else num_stored
    part = entries(state, 0, count) if is_cut(state) else ()
    kept: npt.NDArray[Any] = cache.array(state.name)[part]
    return kept


def bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """The memory of a contiguous array, byte by byte."""
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)
