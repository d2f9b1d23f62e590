"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from litert_lm.errors import DownloadError, StorageError

__all__ = ["check_digest", "check_sha256", "file_sha256"]


def file_sha256(path: Path) -> str:
    """The file's SHA-256 in hex; StorageError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def check_sha256(path: Path, wanted: str | None, what: str) -> None:
    """Raise DownloadError unless `wanted` is None or the file's SHA-256 in hex."""
    if wanted is not None:
        check_digest(file_sha256(path), wanted, what)


def check_digest(found: str, wanted: str | None, what: str) -> None:
    """Raise DownloadError unless `wanted` is None or the same SHA-256, in hex."""
    if wanted is not None and found != wanted.lower():
        raise DownloadError(
            f"{what} has SHA-256 {found} instead of {wanted}: it was replaced at its"
            " source or damaged on the way. Nothing of it is kept."
        )
