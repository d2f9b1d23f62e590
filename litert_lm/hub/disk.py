"""Room on disks, and what is copied to them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO

from litert_lm.config import Progress
from litert_lm.errors import StorageError

__all__ = ["check_room", "copy_to_new"]

_CHUNK_BYTES = 1 << 20


def check_room(folder: Path, num_bytes: int, what: str) -> None:
    """Raise StorageError when `what` needs more bytes than the folder's disk has."""
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise StorageError(
            f"{what} needs {num_bytes / 1e6:.0f} MB, and the disk of {folder} has"
            f" {free / 1e6:.0f} MB free. Free some, or choose another disk."
        )


def copy_to_new(
    source: IO[bytes], target: Path, num_bytes: int, progress: Progress, stage: str
) -> None:
    """Write all of `source`, about `num_bytes`, into a file that does not exist yet."""
    check_room(target.parent, num_bytes, target.name)
    num_done = 0
    with target.open("xb") as file:
        while block := source.read(_CHUNK_BYTES):
            file.write(block)
            num_done += len(block)
            progress(stage, num_done / max(num_bytes, 1))
