"""Writable copies of a section that share all they can with the file."""

from __future__ import annotations

import contextlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from litert_lm.bundle.identity import Identity, identity_of
from litert_lm.errors import StorageError

__all__ = ["Copies"]


@dataclass(frozen=True)
class Copies:
    """Makes copies of a section, also after its bundle was closed.

    Args:
        content: the section's bytes.
        path: the file that holds them, and what it was when they were mapped.
        begin: where they lie in the file; None where they are stored compressed.
    """

    content: memoryview
    path: Path
    identity: Identity | None
    begin: int | None

    def __call__(self) -> memoryview:
        """The bytes as a copy of one's own; pages that are not written stay shared.

        Where the file is no longer what it was, or holds the bytes compressed, the copy
        is in memory. Raises StorageError when there is none left.
        """
        if self.begin is not None:
            with contextlib.suppress(OSError, ValueError):
                return self._mapped(self.begin)
        try:
            memory = mmap.mmap(-1, len(self.content))
        except OSError as error:
            raise StorageError(
                f"No memory for {len(self.content)} bytes of {self.path}: "
                f"{error.strerror}; free some."
            ) from error
        memory[:] = self.content
        return memoryview(memory)

    def _mapped(self, begin: int) -> memoryview:
        """A private mapping of the file; ValueError where that is another one."""
        start = begin // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        length = begin + len(self.content) - start
        with open(self.path, "rb") as file:
            if identity_of(os.fstat(file.fileno())) != self.identity:
                raise ValueError("the file was replaced")
            copy = mmap.ACCESS_COPY
            memory = mmap.mmap(file.fileno(), length, access=copy, offset=start)
        return memoryview(memory)[begin - start :]
