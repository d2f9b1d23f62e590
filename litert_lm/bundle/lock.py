"""A lock between processes, held on a file for as long as the process lives."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from litert_lm.errors import StorageError

__all__ = ["file_lock"]

_POLL_S = 0.1


@contextmanager
def file_lock(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on `path`; call `on_wait` once if another process has it.

    The system frees the lock when its holder dies, so that no stale lock is left.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise StorageError(
            f"Cannot create the lock file {path}: {error.strerror}; check the folder's "
            "permissions and the free space."
        ) from error
    with file:
        if not _try_lock(file):
            on_wait()
            while not _try_lock(file):
                time.sleep(_POLL_S)
        try:
            yield
        finally:
            _unlock(file)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise StorageError(
                f"Cannot lock {file.name}: {reason}. Set LITERT_LM_HOME to a folder"
                " on a disk that supports file locks."
            ) from error
        return True

    def _unlock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
