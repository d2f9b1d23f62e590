"""Saves sessions into files and loads them; `session_format` says what is in them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from litert_lm.bundle.atomic import replacing
from litert_lm.bundle.safetensors import TensorHeader, read_header
from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    SavedStateError,
    read_errors,
    shown,
)
from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.kv_cache import KVCache, is_cut
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.sequence_state import SequenceState
from litert_lm.generate.session_format import (
    FORMAT,
    IDS,
    VERSION,
    bytes_of,
    canonical,
    header_of,
    parts_of,
    placed,
    stored,
)

__all__ = ["load_session_file", "save_session_file"]

_MAX_HEADER_BYTES = 8 << 20
_MAX_DIGITS = 12


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
        InvalidArgumentError: the texts are too long.
        StorageError: the file cannot be written.
    """
    cache, ids = sequence.cache, np.array(sequence.token_ids, np.int32)
    parts = parts_of(executor, ids.size, cache.num_tokens, cache.length)

    def arrays() -> Iterator[memoryview]:
        for part in parts:
            array = ids if part.state is None else stored(cache, part.state)
            yield bytes_of(np.ascontiguousarray(array))

    metadata = {**_metadata(cache, model), **texts}
    tensors = placed(parts)
    digest = hashlib.sha256(canonical(metadata, tensors))
    for data in arrays():
        digest.update(data)
    header = header_of({**metadata, "sha256": digest.hexdigest()}, tensors)
    if len(header) > _MAX_HEADER_BYTES:
        raise InvalidArgumentError(
            f"What was said is too long for a file: {len(header)} bytes, and "
            f"{_MAX_HEADER_BYTES} are the most; begin a new conversation."
        )
    with replacing(path) as file:
        file.write(memoryview(header), 0)
        position = len(header)
        for data in arrays():
            file.write(data, position)
            position += len(data)


def _metadata(cache: KVCache, model: str) -> dict[str, str]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "num_stored": str(cache.num_tokens),
        "cache_length": str(cache.length),
        "cache_reserved": str(cache.reserved),
    }


def load_session_file(
    path: Path, sequence: TokenSequence, executor: Executor, model: str
) -> Mapping[str, str]:
    """Have a sequence stand where the saved one stood; returns all metadata.

    Raises:
        SavedStateError: damaged, no saved session, or that of another model or of a
            longer context. The sequence is empty then.
        StorageError: the file cannot be read.
    """
    with read_errors(path), _opened(path) as file:
        header = _checked_header(path, file, model)
        state = _described(path, file, header, executor)
        sequence.restore(state)
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
    if metadata.get("format") != FORMAT or metadata.get("version") != VERSION:
        raise SavedStateError(
            f"'{path}' is no session that this version can load: its format is "
            f"{shown(metadata.get('format'))}, version "
            f"{shown(metadata.get('version'))}, and {FORMAT!r}, version {VERSION!r}, "
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
    num_ids = _num_ids(path, header, executor)
    length, reserved, num_stored = _sizes(path, header, executor, num_ids)
    parts = parts_of(executor, num_ids, num_stored, length)
    if dict(header.tensors) != placed(parts):
        raise _damaged(path, "its tensors are not those of a session of this model")
    if header.size != header.start + sum(part.nbytes for part in parts):
        raise _damaged(path, f"it has {header.size} bytes, not what its header says")
    content = _Content(path, file, header)
    ids = content.read(np.empty(num_ids, np.int32))
    if num_ids and not 0 <= ids.min() <= ids.max() < executor.vocab_size:
        raise _damaged(path, "it holds token ids that the model does not have")

    def fill(cache: KVCache) -> None:
        for part in parts:
            if part.state is not None:
                array = content.read(np.empty(part.shape, part.state.dtype))
                np.copyto(stored(cache, part.state, num_stored), array)
        content.check_digest()

    return SequenceState(
        token_ids=tuple(ids.tolist()),
        num_stored=num_stored,
        length=length,
        reserved=reserved,
        fill=fill,
        nbytes=header.size,
    )


def _num_ids(path: Path, header: TensorHeader, executor: Executor) -> int:
    entry = header.tensors.get(IDS)
    num_ids = entry.shape[0] if entry is not None and len(entry.shape) == 1 else 0
    if num_ids > executor.context_length + 1:
        raise SavedStateError(
            f"'{path}' holds {num_ids} tokens, and the context of this engine "
            f"{executor.context_length}; open the engine with a larger max_num_tokens."
        )
    return num_ids


def _sizes(
    path: Path, header: TensorHeader, executor: Executor, num_ids: int
) -> tuple[int, int, int]:
    """Length and reserve of the cache, and how many tokens it stores."""
    lengths = [-1, *executor.cache_lengths]
    length = _number(path, header, "cache_length", lengths)
    reserves = [reserve for reserve in lengths if reserve >= length]
    reserved = _number(path, header, "cache_reserved", reserves)
    has_room = any(is_cut(state) for state in executor.layout.states.values())
    most = min(num_ids, max(0, length)) if has_room or length < 0 else num_ids
    return length, reserved, _number(path, header, "num_stored", range(most + 1))


class _Content:
    """The tensors of one file, read in their order."""

    def __init__(self, path: Path, file: BinaryIO, header: TensorHeader) -> None:
        self._path, self._file = path, file
        metadata = dict(header.metadata)
        self._expected = metadata.pop("sha256", "")
        self._digest = hashlib.sha256(canonical(metadata, header.tensors))
        file.seek(header.start)

    def read(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Fill an array with the next tensor; returns it."""
        data = bytes_of(array)
        if self._file.readinto(data) != len(data):  # type: ignore[attr-defined]
            raise _damaged(self._path, "it ended while it was read")
        self._digest.update(data)
        return array

    def check_digest(self) -> None:
        """Raise SavedStateError unless the file is as it was written."""
        if self._digest.hexdigest() != self._expected:
            raise _damaged(self._path, "its SHA-256 is not the one it names")


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
