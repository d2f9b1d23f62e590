"""JSON files of a checkpoint: one object each, of a size that makes sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from litert_lm.errors import ConversionError, ModelFileError, read_errors

__all__ = ["read_bytes", "read_json"]

MAX_BYTES = 512 << 20


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The file's contents; raises ConversionError when it is not there."""
    with read_errors(path):
        try:
            size = path.stat().st_size
            if size > max_bytes:
                raise ModelFileError(
                    f"'{path}' has {size} bytes, more than the {max_bytes} it may have."
                )
            return path.read_bytes()
        except FileNotFoundError as error:
            raise ConversionError(
                f"'{path.parent}' has no {path.name}; the checkpoint is incomplete."
            ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"'{path}' is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"'{path}' does not hold a JSON object.")
    return value
