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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from litert_lm.bundle.identity import file_identity
from litert_lm.errors import StorageError
from litert_lm.executor.native.cache_dir import CacheDirectory
from litert_lm.executor.native.huge_pages import rewrite_in_huge_pages

__all__ = ["PackedWeights"]


class PackedWeights:
    """The weight caches in one cache directory."""

    def __init__(self, cache: CacheDirectory) -> None:
        self._cache = cache

    @contextmanager
    def in_use(self, weight_cache: str | None) -> Iterator[None]:
        """Put this around a compilation with a weight cache of the directory.

        The file is deleted first where it is not what was noted of it.
        """
        if weight_cache is None or not isinstance(self._cache.weights, Path):
            yield
            return
        path = Path(weight_cache)
        if self._is_as_noted(path):
            self._make_fast(path)
            yield
        else:
            with self._cache.lock(_note(path)):
                if not self._is_as_noted(path):
                    with contextlib.suppress(OSError):
                        path.unlink()
                yield
                self._save_note(path)
        if not self._is_as_noted(path):  # weights of one more signature were added
            self._save_note(path)

    def _make_fast(self, path: Path) -> None:
        """Write a file that XNNPACK has written again, once."""
        if self._is_rewritten(path):
            return
        with self._cache.lock(_note(path)):
            if self._is_as_noted(path) and not self._is_rewritten(path):
                with contextlib.suppress(StorageError):  # it works as it is, too
                    rewrite_in_huge_pages(path)
                self._save_note(path, is_rewritten=True)

    def _is_as_noted(self, path: Path) -> bool:
        identity = file_identity(path)
        return identity is not None and self._noted(path)[:1] == [list(identity)]

    def _is_rewritten(self, path: Path) -> bool:
        return self._noted(path)[1:] == [True]

    def _noted(self, path: Path) -> list[object]:
        """The identity of the file, and whether it was written again."""
        noted = self._cache.load(_note(path))
        return noted if isinstance(noted, list) else []

    def _save_note(self, path: Path, *, is_rewritten: bool = False) -> None:
        self._cache.save(_note(path), [file_identity(path), is_rewritten])


def _note(path: Path) -> str:
    return f"packed-{path.name.partition('.')[0]}"
