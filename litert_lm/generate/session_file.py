"""Saved sessions: safetensors files with token ids, entries and checks.

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

import hashlib
import json
import math
import os
import stat
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from litert_lm.bundle.atomic import replacing
from litert_lm.bundle.safetensors import (
    METADATA,
    TensorEntry,
    TensorHeader,
    read_header,
)
from litert_lm.errors import (
    ModelFileError,
    SavedStateError,
    StorageError,
    shown,
)
from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.kv_cache import KVCache, entries, is_cut
from litert_lm.executor.layout.layout import State, state_shape
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.sequence_state import SequenceState

__all__ = ["load_session_file", "save_session_file"]

_FORMAT, _VERSION = "litert_lm.session", "1"
_IDS, _STATE = "token_ids", "state."
_ALIGNMENT = 64  # bytes, of the first tensor
_MAX_HEADER_BYTES = 8 << 20
_MAX_DIGITS = 12
_DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "bool": "BOOL",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32)},
}


@dataclass(frozen=True)
class _Part:
    """A tensor of the file: a state, or None for the token ids."""

    name: str
    state: State | None
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        kind = np.dtype(np.int32) if self.state is None else self.state.dtype
        return math.prod(self.shape) * kind.itemsize


def save_session_file(
    path: Path,
    sequence: TokenSequence,
    executor: Executor,
    model: str,
    texts: Mapping[str, str],
) -> None:
    """Write a sequence into a file, which appears whole or not at all.

    Args:
        model: SHA-256 of the bundle.
        texts: further metadata.

    Raises:
        StorageError: the file cannot be written.
    """
    cache, ids = sequence.cache, np.array(sequence.token_ids, np.int32)
    parts = _parts(executor, ids.size, cache.num_tokens, cache.length)

    def arrays() -> Iterator[memoryview]:
        for part in parts:
            array = ids if part.state is None else _stored(cache, part.state)
            yield _bytes_of(np.ascontiguousarray(array))

    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "model": model,
        "num_stored": str(cache.num_tokens),
        "cache_length": str(cache.length),
        "cache_reserved": str(cache.reserved),
        **texts,
    }
    tensors = _placed(parts)
    digest = hashlib.sha256(_canonical(metadata, tensors))
    for data in arrays():
        digest.update(data)
    header = _header({**metadata, "sha256": digest.hexdigest()}, tensors)
    with replacing(path) as file:
        file.write(memoryview(header), 0)
        position = len(header)
        for data in arrays():
            file.write(data, position)
            position += len(data)


def load_session_file(
    path: Path, sequence: TokenSequence, executor: Executor, model: str
) -> Mapping[str, str]:
    """Have a sequence stand where the saved one stood; returns all metadata.

    Raises:
        SavedStateError: damaged, no saved session, or that of another model or of a
            longer context. The sequence is empty then.
        StorageError: the file cannot be read.
    """
    try:
        with _opened(path) as file:
            header = _checked_header(path, file, model)
            state = _described(path, file, header, executor)
            sequence.restore(state)
    except OSError as error:
        raise StorageError(f"Cannot read '{path}': {error}.") from error
    return header.metadata


def _opened(path: Path) -> BinaryIO:
    # A pipe would be waited for.
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise SavedStateError(f"'{path}' is no file; name a saved session.")
    return file


def _checked_header(path: Path, file: BinaryIO, model: str) -> TensorHeader:
    size = os.fstat(file.fileno()).st_size
    try:
        header = read_header(path, file, size, _MAX_HEADER_BYTES)
    except ModelFileError as error:
        raise SavedStateError(
            f"'{path}' is damaged or no saved session: its header cannot be read. Save "
            "the session again."
        ) from error
    metadata = header.metadata
    if metadata.get("format") != _FORMAT or metadata.get("version") != _VERSION:
        raise SavedStateError(
            f"'{path}' is no session that this version can load: its format is "
            f"{shown(metadata.get('format'))}, version "
            f"{shown(metadata.get('version'))}, and {_FORMAT!r}, version {_VERSION!r}, "
            "is needed."
        )
    if metadata.get("model") != model:
        raise SavedStateError(
            f"'{path}' was saved with another model, of SHA-256 "
            f"{shown(metadata.get('model'))}; this one has {model}. Open the engine "
            "with the bundle that it was saved with."
        )
    return header


def _described(
    path: Path, file: BinaryIO, header: TensorHeader, executor: Executor
) -> SequenceState:
    """The state that a file tells of, all sizes checked, and its ids read."""
    entry = header.tensors.get(_IDS)
    num_ids = entry.shape[0] if entry is not None and len(entry.shape) == 1 else 0
    if num_ids > executor.context_length + 1:
        raise SavedStateError(
            f"'{path}' holds {num_ids} tokens, and the context of this engine "
            f"{executor.context_length}; open the engine with a larger max_num_tokens."
        )
    lengths = executor.cache_lengths
    length = _number(path, header, "cache_length", [-1, *lengths])
    reserved = _number(path, header, "cache_reserved", [-1, *lengths])
    has_room = any(is_cut(state) for state in executor.layout.states.values())
    most = min(num_ids, max(0, length)) if has_room or length < 0 else num_ids
    num_stored = _number(path, header, "num_stored", range(most + 1))
    parts = _parts(executor, num_ids, num_stored, length)
    if dict(header.tensors) != _placed(parts) or reserved < length:
        raise _damaged(path, "its tensors are not those of a session of this model")
    if header.size != header.start + sum(part.nbytes for part in parts):
        raise _damaged(path, f"it has {header.size} bytes, not what its header says")
    metadata = dict(header.metadata)
    expected = metadata.pop("sha256", "")
    digest = hashlib.sha256(_canonical(metadata, header.tensors))
    file.seek(header.start)
    ids = np.empty(num_ids, np.int32)
    _read(path, file, ids, digest)

    def fill(cache: KVCache) -> None:
        for part in parts:
            if part.state is not None:
                array = np.empty(part.shape, part.state.dtype)
                _read(path, file, array, digest)
                np.copyto(_stored(cache, part.state, num_stored), array)
        if digest.hexdigest() != expected:
            raise _damaged(path, "its SHA-256 is not the one it names")

    if num_ids and not 0 <= ids.min() <= ids.max() < executor.vocab_size:
        raise _damaged(path, "it holds token ids that the model does not have")
    return SequenceState(
        token_ids=tuple(ids.tolist()),
        num_stored=num_stored,
        length=length,
        reserved=reserved,
        fill=fill,
        nbytes=header.size,
    )


def _number(path: Path, header: TensorHeader, name: str, valid: Container[int]) -> int:
    """A number of the metadata, one of those that are valid."""
    text = header.metadata.get(name, "")
    try:
        number = int(text) if len(text) < _MAX_DIGITS else -2
    except ValueError:
        number = -2
    if number not in valid:
        raise _damaged(path, f"its {name} is {shown(text)}")
    return number


def _damaged(path: Path, what: str) -> SavedStateError:
    return SavedStateError(f"'{path}' is damaged: {what}. Save the session again.")


def _parts(
    executor: Executor, num_ids: int, num_stored: int, length: int
) -> list[_Part]:
    """The file's tensors in their order; without states where none were used."""
    parts = [_Part(_IDS, None, "I32", (num_ids,))]
    states = executor.layout.states.values() if length >= 0 else ()
    for state in states:
        shape = state_shape(state, num_stored)
        dtype = _DTYPES[state.dtype.name]
        parts.append(_Part(_STATE + state.name, state, dtype, shape))
    return parts


def _placed(parts: list[_Part]) -> dict[str, TensorEntry]:
    """Where each tensor lies, one behind the other."""
    placed, position = {}, 0
    for part in parts:
        end = position + part.nbytes
        placed[part.name] = TensorEntry(part.dtype, part.shape, position, end)
        position = end
    return placed


def _canonical(
    metadata: Mapping[str, str], tensors: Mapping[str, TensorEntry]
) -> bytes:
    rows = {name: asdict(entry) for name, entry in tensors.items()}
    whole = {METADATA: dict(metadata), **rows}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def _header(metadata: Mapping[str, str], tensors: Mapping[str, TensorEntry]) -> bytes:
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


def _stored(
    cache: KVCache, state: State, num_stored: int | None = None
) -> npt.NDArray[Any]:
    """The part of a state's array that is kept, for `num_stored` entries or all."""
    count = cache.num_tokens if num_stored is None else num_stored
    part = entries(state, 0, count) if is_cut(state) else ()
    stored: npt.NDArray[Any] = cache.array(state.name)[part]
    return stored


def _read(path: Path, file: BinaryIO, array: npt.NDArray[Any], digest: Any) -> None:
    data = _bytes_of(array)
    if file.readinto(data) != len(data):  # type: ignore[attr-defined]
        raise _damaged(path, "it ended while it was read")
    digest.update(data)


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """The memory of a contiguous array, byte by byte."""
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)
