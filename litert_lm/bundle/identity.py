"""What tells whether a path still leads to the content that it led to."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["Identity", "file_identity", "identity_of"]

Identity = tuple[int, int, int, int]
"""Device, inode, size in bytes and time of the last change in nanoseconds."""


def file_identity(path: Path) -> Identity | None:
    """The identity of what a path leads to; None if to nothing."""
    try:
        return identity_of(os.stat(path))
    except OSError:
        return None


def identity_of(status: os.stat_result) -> Identity:
    """The identity in what `os.stat` or `os.fstat` says."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
