"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from litert_lm.errors import StorageError

__all__ = ["NewFile", "is_unfinished", "replacing"]

_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")


class NewFile:
    """A file being written; every failure to store is a StorageError that names it.

    Attributes:
        path: what it is to become.
        descriptor: open for reading and writing.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def write(self, data: memoryview, position: int) -> None:
        """Stores `data`, uint8, from byte `position` on."""
        with storage_errors(self.path):
            while data:
                written = os.write(self._seek(position), data)
                data, position = data[written:], position + written

    def _seek(self, position: int) -> int:
        os.lseek(self.descriptor, position, os.SEEK_SET)
        return self.descriptor


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[NewFile]:
    """A new file that takes the place of `path` when the block ends.

    It is written beside `path` and moved there once it is safely on disk. When the
    block fails, nothing is left of it and `path` is as before. Folders, devices and
    pipes are not replaced.
    """
    with storage_errors(path):
        if path.exists() and not path.is_file():
            raise StorageError(
                f"{path} is no file that could be replaced; name another."
            )
    # Not a temporary file of the standard library: those are readable by their owner
    # only, whatever the umask says.
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0)
    try:
        with storage_errors(path):
            descriptor = os.open(part, flags, 0o666)
        try:
            yield NewFile(path, descriptor)
            with storage_errors(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with storage_errors(path):
            os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    _sync_folder(path.parent)


def is_unfinished(path: Path) -> bool:
    """Whether a file is called as `replacing` calls those that it writes."""
    return _UNFINISHED.fullmatch(path.name) is not None


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns the block's OSErrors into a StorageError about `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror}; "
            "check the folder, its permissions and the free space."
        ) from error


def _sync_folder(folder: Path) -> None:
    """Makes a move inside `folder` survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
