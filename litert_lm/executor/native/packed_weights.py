"""Sees to it that packed weights on disk are whole, of this model and fast to read.

XNNPACK trusts most of what its cache file holds: a damaged one crashes it or gives
wrong logits without any sign. Two processes that pack into one file fail. So the file
is noted when it was made, one that is not as noted is made anew, and one process at a
time does so.

XNNPACK writes weight by weight, which leaves the file in small pages of memory; so it
is written once more before it is used again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from litert_lm.bundle.identity import file_identity
from litert_lm.errors import StorageError
from litert_lm.executor.native.cache_dir import CacheDirectory
from litert_lm.executor.native.huge_pages import (
    read_in_huge_pages,
    rewrite_in_huge_pages,
)

__all__ = ["PackedWeights"]


class PackedWeights:
    """The weight caches in one cache directory."""

    def __init__(self, cache: CacheDirectory) -> None:
        self._cache = cache
        self._read: set[Path] = set()

    @contextmanager
    def in_use(self, weight_cache: str | None) -> Iterator[None]:
        """Put this around a compilation with a weight cache of the directory.

        The file is deleted first where it is not what was noted of it, and written
        again where XNNPACK has written it. Before its first use it is read into huge
        pages, as far as it does not lie in them.
        """
        if weight_cache is None or not isinstance(self._cache.weights, Path):
            yield
            return
        path = Path(weight_cache)
        if self._is_as_noted(path):
            self._settle(path)
        if self._is_as_noted(path):
            if path not in self._read:
                read_in_huge_pages(path)
                self._read.add(path)
            yield
        else:
            with self._cache.lock(_note(path)):
                if not self._is_as_noted(path):
                    with contextlib.suppress(OSError):
                        path.unlink()
                yield
                self._save(_note(path), path)
        if not self._is_as_noted(path):  # weights of one more signature were added
            self._save(_note(path), path)

    def _settle(self, path: Path) -> None:
        """Write a file again, once, if it lies in huge pages then."""
        if self._is_noted(_settled(path), path):
            return
        with self._cache.lock(_note(path)):
            if not self._is_as_noted(path) or self._is_noted(_settled(path), path):
                return
            with contextlib.suppress(StorageError):  # as it is it works too
                rewrite_in_huge_pages(path)
                self._save(_note(path), path)
                self._save(_settled(path), path)

    def _is_as_noted(self, path: Path) -> bool:
        return self._is_noted(_note(path), path) and os.access(path, os.R_OK)

    def _is_noted(self, name: str, path: Path) -> bool:
        identity = file_identity(path)
        return identity is not None and self._cache.load(name) == list(identity)

    def _save(self, name: str, path: Path) -> None:
        self._cache.save(name, file_identity(path))


def _settled(path: Path) -> str:
    return f"settled-{path.name.partition('.')[0]}"


def _note(path: Path) -> str:
    return f"packed-{path.name.partition('.')[0]}"
