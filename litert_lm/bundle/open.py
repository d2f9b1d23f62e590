"""From a path to an open bundle: maps the file and tells the containers apart."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

from litert_lm.bundle import litertlm, task
from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.identity import Identity, identity_of
from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
)

__all__ = ["open_bundle"]

_HINTS = (
    (0, b"GGUF", "it is a GGUF file; turn it into a bundle with `litert-lm convert`"),
    (4, b"TFL3", "it is a bare TFLite model without tokenizer and metadata; pack it"),
    (0, b"version https://git-lfs", "it is a Git LFS pointer; download the real file"),
    (0, b"<", "it is a web page; check the address it was downloaded from"),
)


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Opens a .litertlm or .task file, told apart by content, not by name.

    Takes milliseconds whatever the size: the file is mapped, sections are not read.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelFileError: it is no bundle, or is damaged.
        UnsupportedModelError: its format is newer than this release.
        StorageError: the file cannot be read.
    """
    file = _checked(path)
    data, identity = _map(file)
    bundle = _read(file, data)
    if bundle.identity != identity:
        raise ModelFileError(f"{file} was replaced while it was opened; open it again.")
    return bundle


def _read(file: Path, data: memoryview) -> Bundle:
    begin = bytes(data[:64])
    if begin.startswith(litertlm.MAGIC):
        return litertlm.read_litertlm(file, data)
    if begin.startswith(task.MAGIC):
        return task.read_task(file, data)
    hints = [hint for at, magic, hint in _HINTS if begin[at:].startswith(magic)]
    reason = hints[0] if hints else f"it begins with {begin[:8]!r}; get the file again"
    raise ModelFileError(f"{file} is neither a .litertlm nor a .task file: {reason}.")


def _checked(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InvalidArgumentError(
            f"path must be a string or a path, got {path!r}."
        ) from None


def _map(path: Path) -> tuple[memoryview, Identity]:
    """The whole file as read-only bytes. The mapping ends with its last view."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise ModelFileError(f"{path} is a folder; give the bundle file inside it.")
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{path} is not a regular file; copy it to one.")
        if status.st_size == 0:
            raise ModelFileError(f"{path} is empty; get the file again.")
        with open(path, "rb") as file:
            identity = identity_of(os.fstat(file.fileno()))
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return memoryview(data), identity
    except (FileNotFoundError, NotADirectoryError):
        raise ModelNotFoundError(
            f"{path} does not exist; check the path. A model's name becomes one with "
            "litert_lm.hub.resolve_model."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror}; check its permissions."
        ) from error
    except ValueError as error:
        raise InvalidArgumentError(f"{str(path)!r} is no path: {error}.") from None
